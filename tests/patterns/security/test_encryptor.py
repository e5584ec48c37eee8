"""Encryptor."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from dedp_assets.graph.systems.postgres import parsed
from dedp_assets.patterns.connectors.secrets.sealed_file import SealedFile
from dedp_assets.patterns.connectors.secrets.vault import VaultServer
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.secret import Secret
from dedp_assets.patterns.security._key_ring import UnusableKey
from dedp_assets.patterns.security._sealing import Sealing
from dedp_assets.patterns.security.encryptor import Encryption, KeyRing, decrypt, encrypt
from dedp_assets.patterns.security.secrets_pointer import SecretPointers, read_secret
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run
from tests.renaming import any_names

pytestmark = pytest.mark.budget(30, "what holds of a value is shown in jobs of Spark with workers of Python")

CANARY = "canary.lovelace@example.org"
BY_ROW = Encryption(table="silver/users", row_key=["id"])
BY_PERSON = Encryption(table="silver/users", row_key=["id"], subject="id")
JOINED = Encryption(table="silver/users", purpose="join-email", deterministic=True)
STORED = TableSpec(
    "silver/users",
    {
        "id": Column("BIGINT", "user", required=True),
        "email": Column("BINARY", "encrypted e-mail", classification="personal"),
    },
    comment="Users.",
)
GRACE = timedelta(days=30)


def wrapping(version="1", digits="0f"):
    return Access("users", {"read": ("keys/columns",)}, "read", version=version, secret=Secret(digits * 32))


@pytest.fixture
def keys(tmp_path):
    return KeyRing.opened(tmp_path / "keys" / "columns.ring", wrapping())


def users(spark, *emails):
    return spark.createDataFrame([*enumerate(emails or (CANARY, None, "", CANARY))], "id BIGINT, email STRING")


def sealed(spark, keys, bound=BY_ROW, *emails):
    """Encrypted rows, computed once."""
    rows = encrypt(users(spark, *emails), keys, columns=["email"], bound=bound).orderBy("id").collect()
    return spark.createDataFrame(rows, "id BIGINT, email BINARY")


def opened(rows, keys, bound=BY_ROW, kind="STRING"):
    return [row["email"] for row in decrypt(rows, keys, columns={"email": kind}, bound=bound).orderBy("id").collect()]


def fault(rows, keys, bound=BY_ROW, kind="STRING"):
    """The text of the error of a read, without what Spark adds."""
    with pytest.raises((ContractError, *SPARK_ERRORS)) as raised:
        opened(rows, keys, bound, kind)
    assert CANARY not in str(raised.value)
    return str(raised.value).partition("SQLSTATE")[0]


# --- a column within a task, without Spark ---------------------------------------------------------------------------


def column(keys, *, name="silver/users.email", bound=b"bound", purpose="silver/users", **more):
    """The work of a task, as for a table's key."""
    kept = dict(keys.of_purpose(purpose))
    return Sealing(name, bound, purpose, more.pop("deterministic", False), False, kept, **more)


def arrays(values, rows=None):
    count = len(values)
    given_rows = rows or [bytes([number]) for number in range(count)]
    return pa.array(values, pa.binary()), pa.array(given_rows, pa.binary())


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A ring for many examples."""
    made = KeyRing.opened(tmp_path_factory.mktemp("ring") / "columns.ring", wrapping())
    made.current("silver/users")
    return made


@given(values=st.lists(st.none() | st.binary(max_size=40), max_size=20), deterministic=st.booleans())
def test_all_values_come_back_and_none_is_seen(ring, values, deterministic):
    """Acceptance 1, 7: NULL is NULL, empty is a value; equal values are equal in the deterministic mode alone."""
    one = column(ring, current=ring.current("silver/users"), deterministic=deterministic)
    made = one.encrypt(*arrays(values)).field("value").to_pylist()
    back = one.decrypt(*arrays(made))
    assert back.field("value").to_pylist() == values
    assert back.field("fault").null_count == len(values)
    present = [(value, found) for value, found in zip(values, made, strict=True) if value is not None]
    assert [found for found in made if found is None] == [None] * (len(values) - len(present))
    assert not [value for value, found in present if len(value) > 5 and value in found]
    assert {len(found) - len(value) for value, found in present} <= {25 if deterministic else 37}
    if not deterministic:
        assert len({found for _, found in present}) == len(present)


@given(at=st.integers(0, 57), flip=st.integers(1, 255), deterministic=st.booleans())
def test_a_change_of_any_byte_is_an_error_and_no_other_value(ring, at, flip, deterministic):
    """Acceptance 3: version, key id, nonce, ciphertext and tag; the error names place and key, not the value."""
    one = column(ring, current=ring.current("silver/users"), deterministic=deterministic)
    (made,) = one.encrypt(*arrays([b"canary of 21 bytes!!!"])).field("value").to_pylist()
    at %= len(made)
    changed = made[:at] + bytes([made[at] ^ flip]) + made[at + 1 :]
    (found,) = one.decrypt(*arrays([changed])).to_pylist()
    assert found["value"] is None
    assert found["fault"].startswith("silver/users.email: ")
    assert "canary" not in found["fault"]


@pytest.mark.parametrize("short", [b"", b"\x01", b"\x01" + bytes(8), b"plain text", bytes(60)])
def test_what_was_never_encrypted_is_an_error(ring, short):
    """Acceptance 3: as are values that were cut."""
    (found,) = column(ring).decrypt(*arrays([short])).to_pylist()
    assert found["value"] is None
    assert found["fault"].startswith("silver/users.email: ")


# --- the ring --------------------------------------------------------------------------------------------------------


def test_two_runs_at_once_make_one_key(tmp_path):
    """For a table and for each person, whoever is first."""

    def made(number):
        keys = KeyRing.opened(tmp_path / "columns.ring", wrapping())
        everybody = keys.current_of("silver/users", [f"u{n}" for n in range(5)])
        return (keys.current("silver/users").id, *[each.id for each in everybody.values()])

    with ThreadPoolExecutor(8) as runs:
        (only,) = {*runs.map(made, range(16))}
    assert len({*only}) == 6


def test_the_ring_shows_neither_keys_nor_persons(keys):
    """A copy of the file tells whoever has no wrapping key how many keys there are."""
    found = keys.current_of("silver/users", ["ada@example.org"])["ada@example.org"]
    held = keys.file.read_bytes()
    assert keys.file.stat().st_mode & 0o077 == 0
    for hidden in (found.value, b"ada@example.org", bytes.fromhex("0f" * 32)):
        assert hidden not in held
    assert "0f0f" not in repr(keys)
    assert found.value.hex() not in repr(found)


def test_another_wrapping_key_opens_nothing(keys):
    """Acceptance 2, 3: an error names the key and the version, and no key is made."""
    name = keys.current("silver/users").id.hex()
    other = KeyRing.opened(keys.file, wrapping(digits="1f"))
    with pytest.raises(ContractError, match=f"key {name} does not open by version 1 of the wrapping key"):
        other.current("silver/users")
    with pytest.raises(ContractError, match=f"key {name} does not open"):
        other.of_purpose("silver/users")


def test_a_key_stands_for_no_other_key(keys):
    """Acceptance 3: a row of the ring that is copied over another one does not open."""
    for person in ("ada", "eve"):
        keys.current("silver/users", person)
    with sqlite3.connect(keys.file) as changed:
        asked = "SELECT person, wrapped FROM data_keys WHERE purpose = 'silver/users' ORDER BY rowid"
        (ada, _), (_, wrapped) = changed.execute(asked).fetchall()
        changed.execute("UPDATE data_keys SET wrapped = ? WHERE person = ?", (wrapped, ada))
    changed.close()
    with pytest.raises(ContractError, match="the ring was changed"):
        keys.current("silver/users", "ada")


@pytest.mark.parametrize("value", ["0f" * 16, "not hexadecimal at all", "0f" * 33])
def test_a_wrapping_key_that_is_none_is_refused_and_not_repeated(tmp_path, value):
    """By the name of the pointer, with the command that makes one."""
    access = Access("users", {"read": ("keys/columns",)}, "", version="1", secret=Secret(value))
    with pytest.raises(ConfigError, match=r"64 hexadecimal digits .*--random.*, not the secret of keys/columns") as no:
        KeyRing.opened(tmp_path / "ring", access)
    assert value not in str(no.value)


def test_a_file_that_is_no_ring_is_refused(tmp_path):
    """And one that others can read."""
    file = tmp_path / "ring"
    file.write_bytes(b"no ring of keys, but a text of some length" * 100)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="must be a key ring, and is damaged"):
        KeyRing.opened(file, wrapping())
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        KeyRing.opened(file, wrapping())


def test_a_deleted_key_comes_back_within_the_grace_and_is_gone_after_it(keys):
    """Acceptance 4: soft, restored, soft again, shredded; the bytes of the wrapped key leave the file."""
    first, other = keys.current("silver/users", "ada"), keys.current("silver/users", "eve")
    assert keys.delete("silver/users", "ada", until=NOW + GRACE) == 1
    with pytest.raises(UnusableKey, match=r"is deleted, and can be restored until 2026-02-19 12:00:00 UTC"):
        keys.current("silver/users", "ada")
    assert keys.shred(now=NOW) == 0
    assert keys.restore("silver/users", "ada", now=NOW + GRACE / 2) == 1
    assert keys.current("silver/users", "ada") == first
    wrapped = wrapped_in(keys, first.id)
    assert wrapped in keys.file.read_bytes()
    keys.delete("silver/users", "ada", until=NOW + GRACE)
    with pytest.raises(ConfigError, match="none were deleted, or their grace is over"):
        keys.restore("silver/users", "ada", now=NOW + GRACE)
    assert keys.shred(now=NOW + GRACE) == 1
    assert wrapped not in keys.file.read_bytes()
    assert [path.name for path in keys.file.parent.iterdir()] == ["columns.ring"]
    with pytest.raises(UnusableKey, match="is shredded: the values are gone for ever"):
        keys.current("silver/users", "ada")
    with pytest.raises(ConfigError, match="no keys to restore"):
        keys.restore("silver/users", "ada", now=NOW)
    assert keys.current("silver/users", "eve") == other


def wrapped_in(keys, name):
    with sqlite3.connect(keys.file) as ring:
        ((found,),) = ring.execute("SELECT wrapped FROM data_keys WHERE id = ?", (name,)).fetchall()
    ring.close()
    return found


def test_a_deletion_of_nothing_is_said(keys):
    """A mistyped name erases nobody, and must not look as if."""
    keys.current("silver/users", "ada")
    for purpose, person in (("silver/users", "adda"), ("silver/user", "ada"), ("silver/users", None)):
        with pytest.raises(ConfigError, match=f"{purpose} has no keys to delete"):
            keys.delete(purpose, person, until=NOW)
    with pytest.raises(ConfigError, match="until must be a time with a time zone"):
        keys.delete("silver/users", "ada", until=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_rotated_wrapping_key_wraps_again_and_changes_no_data_key(keys):
    """Acceptance 5: with both versions everything is readable; after a rewrap, with the new one alone."""
    before = [keys.current("silver/users"), keys.current("silver/users", "ada")]
    with pytest.raises(
        ConfigError, match=r"wrapped by version 1 .* opened with \['2'\]: open the ring with that version"
    ):
        KeyRing.opened(keys.file, wrapping("2", "1f")).current("silver/users")
    both = KeyRing.opened(keys.file, wrapping("2", "1f"), wrapping())
    assert [both.current("silver/users"), both.current("silver/users", "ada")] == before
    assert both.rewrap() == 3
    assert both.rewrap() == 0
    alone = KeyRing.opened(keys.file, wrapping("2", "1f"))
    assert [alone.current("silver/users"), alone.current("silver/users", "ada")] == before
    with pytest.raises(ConfigError, match="wrapped by version 2"):
        keys.current("silver/users")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"table": ""}, "table must be the name"),
        ({"table": "t"}, "row_key must name the columns that tell rows apart"),
        ({"table": "t", "deterministic": True}, "deterministic must be stated with a purpose, .* or with the subject"),
        ({"table": "t", "deterministic": True, "subject": "id", "row_key": ["id"]}, "not with row_key: equal values"),
        ({"table": "t", "deterministic": True, "purpose": "p", "row_key": ["id"]}, "not with row_key: equal values"),
        ({"table": "t", "row_key": ["id"], "shredded": "skip"}, "shredded must be refuse or null"),
    ],
)
def test_a_binding_that_protects_nothing_is_refused(options, match):
    """Before any row."""
    with pytest.raises(ConfigError, match=match):
        Encryption(**options)


# --- in transit and by identity --------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["ssl_min_protocol_version=TLSv1.1", "ssl_max_protocol_version=TLSv1"])
def test_a_connection_below_tls_1_2_is_refused_when_it_is_stated(option):
    """Acceptance 6: of a database, and of a server of secrets without TLS; nothing is connected."""
    with pytest.raises(ConfigError, match=r"DEDP_POSTGRES must ask for TLS 1.2 or newer \(ssl_m.._protocol") as refused:
        parsed(f"postgresql://ada:hidden-word@db/shop?{option}", "DEDP_POSTGRES")
    assert "hidden-word" not in str(refused.value)
    assert parsed("postgresql://ada:hidden-word@db/shop?ssl_min_protocol_version=TLSv1.2", "X").port == 5432
    with pytest.raises(ConfigError, match=r"must begin with https:// .*TLS 1.2 or newer"):
        VaultServer("http://vault.example:8200", os.devnull)


def test_files_without_a_key_and_a_key_without_files_are_both_nothing(tmp_path, keys):
    """Acceptance 2: a pointer that is not granted, another ring, and files that another user may not read."""
    store = SealedFile(tmp_path / "secrets")
    store.write("keys/columns", {"value": "0f" * 32})
    with pytest.raises(ConfigError, match="keys/columns is not granted to gold/report"):
        read_secret(SecretPointers(store, "gold/report", ["prod/db"]), pointer="keys/columns")
    granted = read_secret(SecretPointers(store, "silver/users", ["keys/columns"]), pointer="keys/columns")
    assert KeyRing.opened(keys.file, granted).current("silver/users") == keys.current("silver/users")
    one = column(keys, current=keys.current("silver/users"))
    made = one.encrypt(*arrays([CANARY.encode()])).field("value")
    elsewhere = KeyRing.opened(tmp_path / "other" / "columns.ring", granted)
    (found,) = column(elsewhere).decrypt(*arrays(made.to_pylist())).to_pylist()
    assert (found["value"], found["fault"].split()[3:7]) == (None, ["is", "none", "of", "silver/users:"])
    data = tmp_path / "lake" / "part-0.parquet"
    data.parent.mkdir(mode=0o700)
    data.write_bytes(made.to_pylist()[0])
    if os.geteuid() == 0:  # as a user who may have the key, and not the files
        done = subprocess.run(["/bin/cat", data], check=False, user=65_534, capture_output=True, text=True, cwd="/")
        assert (done.returncode != 0, done.stdout) == (True, "")
        assert "Permission denied" in done.stderr


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_no_file_of_the_table_holds_a_value_and_a_reader_with_the_key_has_it(spark, make_table, keys, caplog, capfd):
    """Acceptance 1: data files, statistics, log and checksums; nor is a key in them, in the plan or in a log."""
    table = make_table(STORED)
    rows = encrypt(users(spark), keys, columns=["email"], bound=BY_ROW)
    with redirect_stdout(StringIO()) as plan:
        rows.explain(extended=True)
    table.overwrite(rows, provenance=a_run())
    held = {path: path.read_bytes() for path in Path(table.location).rglob("*") if path.is_file()}
    assert len(held) > 2
    key = keys.current("silver/users").value
    secrets = [CANARY.encode(), b"lovelace", key, key.hex().encode(), base64.b64encode(key), bytes.fromhex("0f" * 32)]
    assert not [path for path, content in held.items() if any(secret in content for secret in secrets)]
    said = plan.getvalue() + "".join(capfd.readouterr()) + caplog.text
    assert "ArrowEvalPython" in said
    shown = [secret.decode("latin-1") for secret in secrets] + [str(list(key))[1:-1], repr(key)]
    assert not [text for text in shown if text in said]
    assert opened(table.read(), keys) == [CANARY, None, "", CANARY]


@pytest.mark.spark
def test_a_value_that_was_moved_is_an_error_of_its_place(spark, keys):
    """Acceptance 3: to another row, column, table or purpose; the text names table, column and key."""
    stored = sealed(spark, keys)
    name = keys.current("silver/users").id.hex()
    moved = stored.selectExpr("id + 1 AS id", "email")
    assert f"silver/users.email: key {name} does not open a value" in fault(moved, keys)
    renamed = stored.selectExpr("id", "email AS mail")
    with pytest.raises(SPARK_ERRORS, match=f"silver/users.mail: key {name} does not open"):
        decrypt(renamed, keys, columns={"mail": "STRING"}, bound=BY_ROW).collect()
    with pytest.raises(SPARK_ERRORS, match=f"silver/staff.email: key {name} does not open a value|is none of"):
        opened(stored, keys, Encryption(table="silver/staff", row_key=["id"]))
    assert f"key {name} is none of billing" in fault(
        stored, keys, Encryption(table="silver/users", row_key=["id"], purpose="billing")
    )
    assert "not encrypted in this way" in fault(stored, keys, JOINED)


@pytest.mark.spark
def test_equal_values_join_in_the_deterministic_mode_alone(spark, keys):
    """Acceptance 3: two tables of a purpose join on what is encrypted; of two purposes, or at random, none do."""

    def matches(left, right):
        one, other = sealed(spark, keys, left), sealed(spark, keys, right)
        return one.join(other.withColumnRenamed("id", "other"), "email").count()

    staff = Encryption(table="silver/staff", purpose="join-email", deterministic=True)
    other = Encryption(table="silver/staff", purpose="another", deterministic=True)
    assert matches(JOINED, staff) == 5
    assert matches(JOINED, other) == 0
    assert matches(BY_ROW, BY_ROW) == 0
    assert opened(sealed(spark, keys, JOINED), keys, staff) == [CANARY, None, "", CANARY]


@pytest.mark.spark
def test_equal_values_of_one_person_are_equal_and_open_in_their_column_alone(spark, keys):
    """Acceptance 3, 4: so that a change is told from a repetition; two people's are not equal, one is erased alone."""
    same = Encryption(table="silver/users", subject="id", deterministic=True, shredded="null")
    first, again = (sealed(spark, keys, same, CANARY, CANARY, None, "").collect() for _ in range(2))
    assert first == again
    assert len({row["email"] for row in first}) == 4
    stored = spark.createDataFrame(first, "id BIGINT, email BINARY")
    assert opened(stored, keys, same) == [CANARY, CANARY, None, ""]
    moved = stored.withColumnRenamed("email", "name")
    with pytest.raises(SPARK_ERRORS, match=r"silver/users.name: key \w+ does not open a value"):
        decrypt(moved, keys, columns={"name": "STRING"}, bound=same).collect()
    keys.delete("silver/users", "0", until=NOW + GRACE)
    assert opened(stored, keys, same) == [None, CANARY, None, ""]


@pytest.mark.spark
def test_one_person_is_shredded_and_all_others_stay_readable(spark, keys):
    """Acceptance 4: an error names the key, or the value is NULL where that is stated; new rows of hers are refused."""
    stored = sealed(spark, keys, BY_PERSON, "ada@x.org", "bob@x.org", None, "dan@x.org")
    assert opened(stored, keys, BY_PERSON) == ["ada@x.org", "bob@x.org", None, "dan@x.org"]
    lenient = Encryption(table="silver/users", row_key=["id"], subject="id", shredded="null")
    keys.delete("silver/users", "1", until=NOW + GRACE)
    assert "is deleted, and can be restored until" in fault(stored, keys, BY_PERSON)
    assert opened(stored, keys, lenient) == ["ada@x.org", None, None, "dan@x.org"]
    keys.restore("silver/users", "1", now=NOW)
    assert opened(stored, keys, BY_PERSON)[1] == "bob@x.org"
    keys.delete("silver/users", "1", until=NOW)
    keys.shred(now=NOW)
    assert "is shredded: the values are gone for ever" in fault(stored, keys, BY_PERSON)
    assert opened(stored, keys, lenient) == ["ada@x.org", None, None, "dan@x.org"]
    assert opened(stored.filter("id != 1"), keys, BY_PERSON) == ["ada@x.org", None, "dan@x.org"]
    late = users(spark, "ada@x.org", "bob@y.org")
    with pytest.raises(SPARK_ERRORS, match="is shredded"):
        encrypt(late, keys, columns=["email"], bound=BY_PERSON).collect()
    again = encrypt(late, keys, columns=["email"], bound=lenient).orderBy("id").collect()
    assert [row["email"] is None for row in again] == [False, True]


@pytest.mark.spark
def test_old_values_stay_readable_after_a_rotation_and_a_rerun_takes_the_new_key(spark, keys):
    """Acceptance 5: by the key id beside each value."""
    before = sealed(spark, keys)
    first = keys.current("silver/users").id
    second = bytes.fromhex(keys.rotate("silver/users"))
    later = sealed(spark, keys)
    ids = [{bytes(row["email"])[1:9] for row in rows.collect() if row["email"]} for rows in (before, later)]
    assert ids == [{first}, {second}]
    assert opened(before.union(later.selectExpr("id + 10 AS id", "email").filter("email IS NULL")), keys)[:4] == [
        CANARY, None, "", CANARY,
    ]  # fmt: skip
    rerun = encrypt(
        decrypt(before, keys, columns={"email": "STRING"}, bound=BY_ROW), keys, columns=["email"], bound=BY_ROW
    )
    assert {bytes(row["email"])[1:9] for row in rerun.collect() if row["email"] is not None} == {second}
    assert opened(rerun, keys) == opened(later, keys) == [CANARY, None, "", CANARY]


@pytest.mark.spark
def test_values_of_each_type_come_back_as_they_were(spark, keys):
    """Acceptance 7: the schema says BINARY and, in words, the type; a wrong type is an error and no other value."""
    kinds = {
        "text": "STRING", "raw": "BINARY", "flag": "BOOLEAN", "small": "TINYINT", "big": "BIGINT",
        "price": "DECIMAL(9,3)", "born": "DATE",
    }  # fmt: skip
    some = ("ü\u0000'\"$1", b"\xff\x00", True, -7, 2**62, Decimal("1.500"), date(1815, 12, 10))
    given_rows = [(0, *some), (1, *[None] * 7), (2, "", b"", False, 0, 0, Decimal(0), date(1, 1, 1))]
    rows = spark.createDataFrame(given_rows, f"id INT, {', '.join(f'{n} {k}' for n, k in kinds.items())}")
    stored = encrypt(rows, keys, columns=list(kinds), bound=BY_ROW)
    assert {each.dataType.simpleString() for each in stored.schema.fields if each.name in kinds} == {"binary"}
    assert stored.schema["born"].metadata["comment"] == "encrypted DATE"
    assert stored.columns == rows.columns
    back = decrypt(stored, keys, columns=kinds, bound=BY_ROW)
    assert Counter(map(tuple, back.collect())) == Counter(map(tuple, rows.collect()))
    for name, kind in (("text", "BIGINT"), ("price", "DECIMAL(9,2)"), ("big", "INT"), ("born", "BOOLEAN")):
        with pytest.raises(
            SPARK_ERRORS, match=f"silver/users.{name}: a value is no {kind.replace('(', '.')[:8]}"
        ) as no:
            decrypt(stored, keys, columns={name: kind}, bound=BY_ROW).collect()
        assert "1815" not in str(no.value).partition("JVM stacktrace")[0]


@pytest.mark.spark
def test_spark_itself_opens_a_value_by_the_same_layout(spark, keys):
    """An auditor needs no code of this library: nonce, ciphertext and tag are as Spark's aes_decrypt takes them."""
    stored = encrypt(users(spark), keys, columns=["email"], bound=BY_ROW)
    key = keys.current("silver/users")
    row_key = F.sha2(F.concat(F.lit("i"), F.octet_length(F.col("id").cast("string")), F.lit(":"), "id"), 256)
    bound = F.concat(F.lit(BY_ROW.bound_to("email") + key.id), F.unhex(row_key))
    value = F.expr("substr(email, 10)")
    plain = F.aes_decrypt(value, F.lit(key.value), F.lit("GCM"), F.lit("DEFAULT"), bound).cast("string")
    assert [row[0] for row in stored.filter("id = 0").select(plain).collect()] == [CANARY]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ([], "columns must name at least one column"),
        (["mail"], "the rows have no column mail"),
        (["email", "EMAIL"], "columns names email twice"),
        (["id"], "columns must not be of the row's key"),
        (["score"], "column score is DOUBLE, which has no text for each value"),
    ],
)
def test_columns_that_cannot_be_encrypted_are_refused(spark, keys, columns, match):
    """By name, before a key is made."""
    rows = users(spark).selectExpr("*", "1.5D AS score")
    with pytest.raises(ConfigError, match=match):
        encrypt(rows, keys, columns=columns, bound=BY_ROW)
    assert keys.of_purpose("silver/users") == {}


@pytest.mark.spark
def test_what_is_not_encrypted_is_not_decrypted(spark, keys):
    """A text, a type that no value has, and a person that is not there."""
    with pytest.raises(ConfigError, match="column email is STRING, which is not encrypted"):
        decrypt(users(spark), keys, columns={"email": "STRING"}, bound=BY_ROW)
    with pytest.raises(ConfigError, match="such as STRING, not DOUBLE of email"):
        decrypt(sealed(spark, keys), keys, columns={"email": "DOUBLE"}, bound=BY_ROW)
    nobody = users(spark).selectExpr("id AS key", "CAST(NULL AS STRING) AS id", "email")
    bound = Encryption(table="silver/users", row_key=["key"], subject="id")
    with pytest.raises(SPARK_ERRORS, match="a value without a person has no key: fill the column of the subject"):
        encrypt(nobody, keys, columns=["email"], bound=bound).collect()


def ring_in(folder):
    return KeyRing.opened(folder / "columns.ring", wrapping())


@known_calls
def calls_that_work(known):
    rows, keys = known.frame("id INT, email BINARY", (1, None)), ring_in(known.folder)
    return {"decrypt": {"rows": rows, "keys": keys, "columns": {"email": "STRING"}, "bound": BY_ROW}}


@any_names(handed_on=["day"])
def there_and_back(n):
    keys = KeyRing.opened(Path(tempfile.mkdtemp()) / "ring", wrapping())
    rows = n.frame("id INT, email STRING, day STRING", (1, CANARY, "mon"), (2, None, "tue"))
    bound = Encryption(table="silver/users", row_key=[n("id")], subject=n("id"))
    stored = encrypt(rows, keys, columns=[n("email")], bound=bound)
    yield decrypt(stored, keys, columns={n("email"): "STRING"}, bound=bound)
