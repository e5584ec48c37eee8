"""The decoder of PostgreSQL's log: messages as the protocol's description writes them."""

from __future__ import annotations

import struct
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.postgres.pgoutput import decode, position_text
from dedp_assets.patterns.core.errors import ContractError

USERS, OTHERS = 16384, 16390
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))


def begin(position=100):
    return b"B" + struct.pack("!QqI", position, 0, 757)


def commit(position=100, ends_at=148, microseconds=0):
    return b"C" + struct.pack("!BQQq", 0, position, ends_at, microseconds)


def relation(oid=USERS, name="users", identity=b"f", columns=(("id", 20, -1), ("note", 25, -1))):
    head = (
        b"R" + struct.pack("!I", oid) + b"public\0" + name.encode() + b"\0" + identity + struct.pack("!H", len(columns))
    )
    return head + b"".join(
        b"\1" + c.encode() + b"\0" + struct.pack("!Ii", kind, modifier) for c, kind, modifier in columns
    )


def row(*values):
    """A row of texts; ``None`` is NULL, ``...`` a large value that did not change."""
    made = struct.pack("!H", len(values))
    for value in values:
        if value is None or value is ...:
            made += b"n" if value is None else b"u"
        else:
            made += b"t" + struct.pack("!I", len(value.encode())) + value.encode()
    return made


def about(kind, rest, oid=USERS):
    return kind + struct.pack("!I", oid) + rest


def changes(*messages):
    """Operation, row before, row after of everything in one transaction."""
    (transaction,) = decode([begin(), relation(), *messages, commit()])
    return [(c.operation, c.before, c.after) for c in transaction.changes if c.operation != "schema"]


def test_each_operation_has_its_rows():
    """An insert the new one, an update both, a delete the former one, a truncation none."""
    found = changes(
        about(b"I", b"N" + row("1", None)),
        about(b"U", b"O" + row("1", None) + b"N" + row("1", "x")),
        about(b"U", b"N" + row("1", "y")),
        about(b"D", b"O" + row("1", "y")),
        b"T" + struct.pack("!IBI", 1, 0, USERS),
    )
    assert found == [
        ("insert", None, {"id": "1", "note": None}),
        ("update", {"id": "1", "note": None}, {"id": "1", "note": "x"}),
        ("update", None, {"id": "1", "note": "y"}),
        ("delete", {"id": "1", "note": "y"}, None),
        ("truncate", None, None),
    ]


@given(st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT)))
def test_texts_and_nulls_come_out_as_they_went_in(rows):
    """Whatever they hold, also nothing, and characters of several bytes."""
    found = changes(*[about(b"I", b"N" + row(*values)) for values in rows])
    assert [tuple(after.values()) for _, _, after in found] == rows


def test_a_large_value_that_did_not_change_comes_from_the_former_row():
    """The new row does not repeat it; without a former row it is not there, which is not the same as NULL."""
    found = changes(
        about(b"U", b"O" + row("1", "large") + b"N" + row("2", ...)),
        about(b"U", b"N" + row("2", ...)),
        about(b"U", b"O" + row("1", None) + b"N" + row("2", None)),
    )
    assert [after for _, _, after in found] == [{"id": "2", "note": "large"}, {"id": "2"}, {"id": "2", "note": None}]


def test_transactions_come_in_the_order_of_their_commits_with_time_and_end():
    """Each with its own changes; one without any is a transaction, too."""
    messages = [
        *[begin(), relation(), about(b"I", b"N" + row("1", "a")), commit(ends_at=148)],
        *[begin(200), commit(200, 248, microseconds=1_500_000)],
        *[begin(300), about(b"I", b"N" + row("2", "b")), about(b"D", b"O" + row("1", "a")), commit(300, 348)],
    ]
    first, second, third = decode(messages)
    assert [(t.ends_at, len(t.changes)) for t in (first, second, third)] == [(148, 2), (248, 0), (348, 2)]
    assert second.committed_at == datetime(2000, 1, 1, 0, 0, 1, 500_000, tzinfo=timezone.utc)


def test_a_transaction_that_has_not_ended_is_not_there():
    """Its messages were cut off: nothing of it may be taken for committed."""
    assert list(decode([begin(), relation(), about(b"I", b"N" + row("1", "a"))])) == []


def test_a_table_says_what_it_is_when_it_is_first_seen_and_when_it_changes():
    """Columns with their types, and whether former rows are whole; changes after it have its columns."""
    wider = relation(columns=(("id", 20, -1), ("note", 25, -1), ("age", 1043, 14)), identity=b"d")
    messages = [begin(), relation(), about(b"I", b"N" + row("1", "a")), wider, about(b"I", b"N" + row("2", "b", "9"))]
    (transaction,) = decode([*messages, commit()])
    seen = [change.relation for change in transaction.changes if change.operation == "schema"]
    assert [(r.oid, r.name, r.whole_rows) for r in seen] == [
        (USERS, "public.users", True),
        (USERS, "public.users", False),
    ]
    assert seen[1].columns == {"id": (20, -1), "note": (25, -1), "age": (1043, 14)}
    assert transaction.changes[-1].after == {"id": "2", "note": "b", "age": "9"}


def test_tables_are_told_apart():
    """Also when one statement empties several."""
    truncate = b"T" + struct.pack("!IBII", 2, 1, USERS, OTHERS)
    (transaction,) = decode([begin(), relation(), relation(OTHERS, "others"), truncate, commit()])
    assert [c.relation.name for c in transaction.changes if c.operation == "truncate"] == [
        "public.users",
        "public.others",
    ]


def test_messages_that_say_nothing_about_rows_are_passed_over():
    """Origins, names of types, messages of applications."""
    assert changes(b"O" + bytes(9), b"Y" + bytes(9), b"M" + bytes(20), about(b"I", b"N" + row("1", None)))


def test_a_message_of_another_protocol_is_an_error():
    """Passing over what is not understood would lose changes."""
    with pytest.raises(ContractError, match="b'S' is not part of protocol version 1"):
        list(decode([b"S" + bytes(8)]))


@pytest.mark.parametrize(("number", "text"), [(0, "0/0"), (0x17C3EB8, "0/17C3EB8"), (0x2A_0000_00FF, "2A/FF")])
def test_a_position_is_written_as_postgres_does(number, text):
    """Two hexadecimal numbers of 32 bits."""
    assert position_text(number) == text


# --- what no server sends ---------------------------------------------------------------------------------------------

MESSAGES = [
    begin(),
    relation(),
    relation(OTHERS, "others", columns=(("é", 25, -1),)),
    about(b"I", b"N" + row("1", None)),
    about(b"U", b"O" + row("1", "ä") + b"N" + row("1", ...)),
    about(b"U", b"K" + row("1", None) + b"N" + row("2", "x")),
    about(b"D", b"O" + row("1", "y")),
    about(b"I", b"N" + row("z"), OTHERS),
    b"T" + struct.pack("!IBII", 2, 1, USERS, OTHERS),
    b"M" + bytes(20),
    commit(),
    begin(200),
    commit(200, 248),
]


def decoded(messages):
    """The transactions before the first message that is refused, which the library says in one sentence."""
    found, said = [], ""
    try:
        found.extend(decode(messages))
    except ContractError as error:
        said = str(error)
    assert (said or "pgoutput message ").startswith("pgoutput message ")
    assert "\n" not in said
    return found


@given(st.lists(st.binary(max_size=40) | st.sampled_from(MESSAGES), max_size=12))
def test_any_bytes_are_transactions_or_refused(messages):
    """Between, before or behind what a server would send."""
    for transaction in decoded(messages):
        assert 0 <= transaction.ends_at < 1 << 63
        for change in transaction.changes:
            assert (change.after is None) is (change.operation in ("delete", "truncate", "schema"))
            assert all(
                row is None or row.keys() <= change.relation.columns.keys() for row in (change.before, change.after)
            )


@given(st.integers(0, len(MESSAGES) - 1), st.data())
def test_a_message_that_is_cut_off_or_too_long_is_refused(number, data):
    """At whatever byte: half of a text is no text, and nothing behind it is read. What is passed over may be cut."""
    whole = MESSAGES[number]
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for damaged in (cut, whole + data.draw(st.binary(min_size=1, max_size=5))):
        if damaged[:1] != b"M":
            with pytest.raises(ContractError, match=r"^pgoutput message "):
                list(decode([*MESSAGES[:number], damaged, *MESSAGES[number + 1 :]]))


@given(st.integers(0, len(MESSAGES) - 1), st.data())
def test_a_flipped_bit_gives_no_exception_of_python(number, data):
    """What it makes of a text nobody can tell; all else fits together, or is refused."""
    message = bytearray(MESSAGES[number])
    message[data.draw(st.integers(0, len(message) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    decoded([*MESSAGES[:number], bytes(message), *MESSAGES[number + 1 :]])


@given(st.permutations(range(len(MESSAGES))), st.integers(0, len(MESSAGES)))
def test_messages_in_another_order_lose_no_change(order, count):
    """A transaction holds what was sent between its begin and its commit, or there is none."""
    found = decoded([MESSAGES[n] for n in order[:count]])
    sent = [n for n in order[:count] if n in (0, 10, 11, 12)]
    for transaction in found:
        first, last = (0, 10) if transaction.ends_at == 148 else (11, 12)
        assert sent.index(last) == sent.index(first) + 1


@pytest.mark.parametrize(
    "messages",
    [
        [None],
        ["B"],
        [b""],
        [memoryview(begin())],
        [commit()],
        [relation()],
        [begin(), begin(), commit()],
        [begin(), commit(101)],
        [begin(), commit(100, 100)],
        [begin(1 << 63), commit(1 << 63, (1 << 63) + 1)],
        [begin(), commit(microseconds=1 << 62)],
        [begin(), commit(), begin(), commit()],
        [begin(), about(b"I", b"N" + row("1", None)), commit()],
        [begin(), b"T" + struct.pack("!IBI", 1, 0, 9), commit()],
        [begin(), b"T" + struct.pack("!IBI", 2**32 - 1, 0, USERS), commit()],
        [begin(), relation(columns=(("id", 20, -1), ("id", 20, -1))), commit()],
        [begin(), relation(identity=b"x"), commit()],
        [begin(), relation(), about(b"I", b""), commit()],
        [begin(), relation(), about(b"I", b"O" + row("1", None)), commit()],
        [begin(), relation(), about(b"U", b"O" + row("1", None)), commit()],
        [begin(), relation(), about(b"D", b"N" + row("1", None)), commit()],
        [begin(), relation(), about(b"I", b"N" + row("1")), commit()],
        [begin(), relation(), about(b"I", b"N" + row("1", None, None)), commit()],
        [begin(), relation(), about(b"I", b"N" + struct.pack("!H", 2) + b"nb"), commit()],
        [begin(), relation(), about(b"I", b"N" + struct.pack("!H", 2) + b"nt\0\0\0\1\xff"), commit()],
        [begin(), relation(), about(b"I", b"N" + struct.pack("!H", 2) + b"nt\0\0\0\5ab"), commit()],
    ],
)
def test_what_no_server_sends_is_refused(messages):
    """A begin without a commit, a transaction twice, half of a row, bytes that are no text: nothing is guessed."""
    with pytest.raises(ContractError, match=r"^pgoutput message .* cannot be decoded "):
        list(decode(messages))
