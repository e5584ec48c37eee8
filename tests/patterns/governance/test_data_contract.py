"""Data Contract."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from importlib.resources import files
from itertools import product

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.classes import CLASSES
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin, Influence
from dedp_assets.patterns.governance._allowed import with_allowed
from dedp_assets.patterns.governance._changes import differences
from dedp_assets.patterns.governance._documents import contract_document, read_contract
from dedp_assets.patterns.governance.data_contract import (
    ChangeRequest,
    Consumer,
    Contract,
    Quality,
    Sla,
    judge_change,
    request_change,
)
from tests.contracts.known_calls import known_calls

NOW = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
COLUMNS = {
    "order_id": Column("STRING", "id of the order", required=True),
    "status": Column("STRING", "state of the order", required=True),
    "amount": Column("BIGINT", "cents"),
    "small": Column("INT", "a whole number"),
    "price": Column("DECIMAL(10,2)", "price"),
    "code": Column("VARCHAR(10)", "code"),
    "ship": Column("STRUCT<to: STRING NOT NULL, by: STRING, parts: ARRAY<STRUCT<n: INT>>>", "shipment"),
    "day": Column("DATE", "UTC day", required=True),
}
OLD = Contract(
    name="silver/orders",
    version="1.2.3",
    owner="team:checkout",
    columns=COLUMNS,
    partition_by=["day"],
    key=["order_id"],
    comment="One row per order.",
    quality=Quality(
        checks={"amount_is_positive": "amount > 0"},
        rules={"volume_is_usual": "fails below 0.5"},
        null_shares={"amount": 0.01},
        allowed={"status": ["pending", "shipped"]},
        daily_rows_min=10_000,
        daily_rows_max=500_000,
    ),
    sla=Sla(fresh_hours=26, due="08:00"),
    consumers=[
        Consumer("dashboards", "team:bi", ["amount", "day"]),
        Consumer("finance", columns=["status", "price"]),
        Consumer("archive"),
    ],
)


def columns(**changed):
    """The contract with other columns.

    ``None`` removes one.
    """
    return replace(OLD, columns={name: each for name, each in {**COLUMNS, **changed}.items() if each is not None})


def column(name, **options):
    """The contract with another option of one column."""
    return columns(**{name: replace(COLUMNS[name], **options)})


def quality(**changed):
    return replace(OLD, quality=replace(OLD.quality, **changed))


def sla(**changed):
    return replace(OLD, sla=replace(OLD.sla, **changed))


SHIP = COLUMNS["ship"].type
DATED = SHIP.replace("by: STRING", "by: STRING, at: DATE")
CHANGES = {
    # change: (new contract, sides that it breaks)
    "column removed": (columns(small=None), "C"),
    "column renamed": (columns(small=None, size=COLUMNS["small"]), "C"),
    "column added": (columns(note=Column("STRING")), ""),
    "column added, required without a default": (columns(note=Column("STRING", required=True)), "P"),
    "column added, required with a default": (
        replace(columns(note=Column("STRING", required=True)), defaults={"note": "none"}),
        "",
    ),
    "type narrowed": (column("amount", type="INT"), "CP"),
    "type widened": (column("small", type="BIGINT"), ""),
    "type of another kind": (column("small", type="STRING"), "CP"),
    "whole number to double": (column("amount", type="DOUBLE"), "CP"),
    "decimal wider": (column("price", type="DECIMAL(12,4)"), ""),
    "decimal with fewer whole digits": (column("price", type="DECIMAL(10,4)"), "CP"),
    "decimal narrower": (column("price", type="DECIMAL(8,2)"), "CP"),
    "text longer": (column("code", type="VARCHAR(20)"), ""),
    "text without limit": (column("code", type="STRING"), ""),
    "text shorter": (column("code", type="VARCHAR(5)"), "CP"),
    "type only spelt differently": (
        column("ship", type="struct<to string not null,by:string,parts array<struct<n: int>>>"),
        "",
    ),
    "type that only Spark reads": (column("small", type="INTERVAL DAY"), "CP"),
    "nested field removed": (column("ship", type=SHIP.replace("by: STRING, ", "")), "C"),
    "nested field added": (column("ship", type=DATED), ""),
    "nested field added, required": (
        column("ship", type=DATED.replace("DATE", "DATE NOT NULL")),
        "P",
    ),
    "nested field not required": (column("ship", type=SHIP.replace(" NOT NULL", "")), "C"),
    "nested field in a list of another type": (column("ship", type=SHIP.replace("n: INT", "n: STRING")), "CP"),
    "required off": (column("status", required=False), "C"),
    "required on": (column("small", required=True), "P"),
    "required on, with a default": (replace(column("small", required=True), defaults={"small": "0"}), ""),
    "classification": (column("order_id", classification="personal"), ""),
    "purpose": (column("order_id", purpose=("billing",)), ""),
    "description": (column("small", comment="other words"), ""),
    "allowed value added": (quality(allowed={"status": ["pending", "shipped", "lost"]}), "C"),
    "allowed value removed": (quality(allowed={"status": ["pending"]}), "P"),
    "allowed values gone": (quality(allowed={}), "C"),
    "allowed values for the first time": (quality(allowed={**OLD.quality.allowed, "code": ["a"]}), "P"),
    "share of missing values raised": (quality(null_shares={"amount": 0.02}), "C"),
    "share of missing values lowered": (quality(null_shares={"amount": 0.0}), "P"),
    "share of missing values gone": (quality(null_shares={}), "C"),
    "check gone": (quality(checks={}), "C"),
    "check added": (quality(checks={**OLD.quality.checks, "x": "amount < 9"}), "P"),
    "check of other content": (quality(checks={"amount_is_positive": "amount >= 0"}), "CP"),
    "check only laid out differently": (quality(checks={"amount_is_positive": "amount  >\n 0"}), ""),
    "audit gone": (quality(rules={}), "C"),
    "fewest rows lowered": (quality(daily_rows_min=1), "C"),
    "fewest rows raised": (quality(daily_rows_min=20_000), "P"),
    "fewest rows gone": (quality(daily_rows_min=None), "C"),
    "most rows raised": (quality(daily_rows_max=600_000), "C"),
    "most rows lowered": (quality(daily_rows_max=400_000), "P"),
    "freshness 26 to 48 hours": (sla(fresh_hours=48), "C"),
    "freshness gone": (sla(fresh_hours=None), "C"),
    "freshness tightened": (sla(fresh_hours=13), "P"),
    "due later": (sla(due="09:00"), "C"),
    "due a day later": (sla(days_after=1), "C"),
    "due earlier": (sla(due="07:59"), "P"),
    "due in another zone": (sla(zone="Europe/Berlin"), "CP"),
    "no longer due": (sla(due=""), "C"),
    "partition column": (replace(OLD, partition_by=["status"]), "C"),
    "key gone": (replace(OLD, key=[]), "C"),
    "another key": (replace(OLD, key=["order_id", "day"]), "CP"),
    "notice shortened": (replace(OLD, notice_days=7), "C"),
    "notice lengthened": (replace(OLD, notice_days=60), "P"),
    "table renamed": (replace(OLD, name="silver/purchases"), "C"),
    "owner": (replace(OLD, owner="team:shop"), ""),
    "only another case of names": (
        replace(OLD, columns={n.upper(): c for n, c in COLUMNS.items()}, partition_by=["DAY"], key=["Order_Id"]),
        "",
    ),
    "another case of a field": (column("ship", type=SHIP.replace("by: ", "BY: ")), ""),
    "meaning of a row in other words": (replace(OLD, comment="An order."), ""),
    "consumers": (replace(OLD, consumers=[]), ""),
    "nothing": (OLD, ""),
}
WORDS = ("description", "owner", "only another case of names", "meaning of a row in other words")
SAME = (
    "nothing",
    "another case of a field",
    "consumers",
    "check only laid out differently",
    "type only spelt differently",
)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_breaking_for_whom_the_matrix_says(change):
    """A looser promise breaks consumers, a tighter one the producer; the version follows, and words are a patch."""
    new, breaks = CHANGES[change]
    for sides in (("consumer",), ("producer",), ("consumer", "producer")):
        found = judge_change(OLD, new, {}, NOW, perspectives=sides)
        expected = bool({*breaks} & {each[0].upper() for each in sides})
        assert bool(found.figures["breaking"]) == expected == (not found.passed)
        patch, same = "1.2.4" if change in WORDS else "1.3.0", change in SAME
        assert found.figures["version"] == ("2.0.0" if expected else "1.2.3" if same else patch)
        assert bool(found.figures["differences"]) != same


PEERS = {
    # datacontract-cli 1.2.8, from the consumer's perspective
    "column removed": True,
    "column renamed": True,
    "type narrowed": True,
    "type of another kind": True,
    "required off": True,
    "allowed value added": True,
    "freshness 26 to 48 hours": True,
    "freshness gone": True,
    "fewest rows gone": True,
    "fewest rows lowered": True,
    "nested field removed": True,
    "table renamed": True,
    "column added": False,
    "column added, required without a default": False,
    "required on": False,
    "allowed value removed": False,
    "freshness tightened": False,
    "description": False,
    "partition column": False,
    "type widened": True,
}
OURS = {
    "partition column": "readers of single partitions name the column in a filter or in a path of the lake",
    "type widened": "Spark and Delta read the wider column; a consumer who cannot proves it by Contract Testing",
}


@pytest.mark.parametrize("change", PEERS)
def test_verdicts_are_those_of_the_peer_but_for_two_with_a_reason(change):
    """Written down as data: who changes a verdict sees whose it was."""
    found = judge_change(OLD, CHANGES[change][0], {}, NOW, perspectives=["consumer"])
    assert (bool(found.figures["breaking"]) == PEERS[change]) != (change in OURS)


def test_a_change_that_breaks_is_named_with_all_others():
    """Each difference has a line of its own, a rename a hint, and no line comes twice."""
    new = replace(columns(small=None, size=COLUMNS["small"]), sla=Sla(), version="1.2.3")
    found = judge_change(OLD, new, {}, NOW)
    assert found.figures["differences"] == [
        "columns.small: column small is gone: perhaps size is its new name",
        "columns.size: a column is added: size INT",
        "sla.fresh_hours: hours of freshness: no longer promised, was 26",
        "sla.due: no longer due, was at 08:00",
    ]
    assert "size" not in " ".join(found.figures["breaking"][1:])


def test_those_are_affected_who_read_the_column():
    """A consumer whose columns nobody knows counts as a reader of all."""
    found = judge_change(OLD, columns(price=None), {}, NOW)
    assert found.figures["affected"] == ["finance", "archive"]
    assert found.figures["awaiting"] == ["finance", "archive"]
    assert "finance, archive" in found.note
    everybody = judge_change(OLD, replace(OLD, partition_by=[]), {}, NOW)
    assert everybody.figures["affected"] == ["dashboards", "finance", "archive"]
    assert everybody.figures["awaiting"] == ["team:bi", "finance", "archive"]
    tighter = judge_change(OLD, column("small", required=True), {}, NOW)
    assert tighter.figures["affected"] == ["team:checkout"]


def lineage(table, effect="", opaque="", **derived):
    origins = {name: ColumnOrigin((ColumnInput(table, origin),), opaque) for name, origin in derived.items()}
    return ColumnLineage(origins, (Influence(table, effect, "FILTER"),) if effect else ())


def test_column_lineage_names_readers_further_down():
    """Through values, through filters, and through code that no plan shows; not those of other columns."""
    alone = replace(OLD, consumers=[])
    lineages = {
        "gold/revenue": lineage("gold/daily", total="sum_of_prices"),
        "gold/daily": lineage("silver/orders", sum_of_prices="price"),
        "gold/states": lineage("silver/orders", state="status"),
        "gold/dear": lineage("silver/orders", effect="price", state="status"),
        "gold/code": lineage("silver/orders", opaque="a Python function", state="status"),
        "gold/other": lineage("silver/users", price="price"),
        "gold/dearer": lineage("gold/dear", anything="state"),
    }
    found = judge_change(alone, replace(columns(price=None), consumers=[]), lineages, NOW)
    affected = {"gold/daily", "gold/revenue", "gold/dear", "gold/dearer", "gold/code"}
    assert {*found.figures["affected"]} == affected
    nested = replace(column("ship", type=SHIP.replace("by: STRING, ", "")), consumers=[])
    reading = {"gold/by": ColumnLineage({"by": ColumnOrigin((ColumnInput("silver/orders", "ship", field="by"),))})}
    other = {"gold/to": ColumnLineage({"to": ColumnOrigin((ColumnInput("silver/orders", "ship", field="to"),))})}
    assert judge_change(alone, nested, {**reading, **other}, NOW).figures["affected"] == ["gold/by"]


def test_a_change_that_hits_nobody_needs_no_notice():
    """It raises the major version all the same."""
    known = OLD.consumers[:2]
    found = judge_change(replace(OLD, consumers=known), replace(columns(small=None), consumers=known), {}, NOW)
    assert found.passed
    assert found.figures["version"] == "2.0.0"


def test_a_breaking_change_waits_for_everybody_or_for_the_end_of_the_notice():
    """Refused without an announcement; agreed by the last acknowledgement, or 30 days after the announcement."""
    old, new = quality(null_shares={}), column("amount", type="STRING")
    new = replace(new, quality=old.quality)
    assert "not announced: columns.amount" in judge_change(old, new, {}, NOW).note
    request = request_change(old, new, {}, NOW, perspectives=["consumer"])
    assert request.affected == ["team:bi", "archive"]
    assert request.deadline == NOW + 30 * DAY
    judge = partial(judge_change, old, new, {}, perspectives=["consumer"])
    early = judge(NOW + 30 * DAY - timedelta(seconds=1), request=request)
    assert early.refuses
    assert early.note == "waits for team:bi, archive, or until 2026-02-04 12:00 UTC"
    assert judge(NOW + 30 * DAY, request=request).passed
    one = request.acknowledged_by("archive", NOW + DAY)
    assert judge(NOW + DAY, request=one).figures["awaiting"] == ["team:bi"]
    both = one.acknowledged_by("team:bi", NOW + 2 * DAY)
    assert judge(NOW + 2 * DAY, request=both).passed
    assert not judge(NOW + DAY, request=both).passed


def test_an_announcement_covers_what_it_says_and_the_version_it_was_made_for():
    """More changes, or a contract that was published in between, need an announcement of their own."""
    request = request_change(OLD, columns(code=None), {}, NOW)
    later = NOW + 60 * DAY
    assert judge_change(OLD, columns(code=None), {}, later, request=request).passed
    more = judge_change(OLD, columns(code=None, price=None), {}, later, request=request)
    assert "columns.price" in more.note
    assert "columns.code" not in more.note
    newer = replace(OLD, version="1.3.0")
    assert judge_change(newer, columns(code=None), {}, later, request=request).refuses


def test_a_new_version_must_say_what_the_change_is():
    """A breaking change is no minor version; a higher one is taken as it is."""
    agreed = {"now": NOW, "lineages": {}}
    new = columns(note=Column("STRING"))
    assert judge_change(OLD, replace(new, version="1.2.9"), **agreed).note == (
        "the version must be 1.3.0 or later, not 1.2.9"
    )
    assert judge_change(OLD, replace(new, version="3.0.0"), **agreed).figures["version"] == "3.0.0"
    assert judge_change(OLD, replace(new, version="1.10.0"), **agreed).passed


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: judge_change(OLD, OLD, {}, NOW, perspectives=[]), "perspectives must be consumer"),
        (lambda: judge_change(OLD, OLD, {}, NOW, perspectives=["reader"]), "perspectives must be"),
        (lambda: judge_change(OLD, OLD, {}, NOW, request=request_of("gold/x")), "request must be about silver/orders"),
        (lambda: request_change(OLD, columns(note=Column("INT")), {}, NOW), "must have a breaking change"),
        (lambda: request_of("x").acknowledged_by("nobody", NOW), "must come from a, not nobody"),
        (lambda: replace(OLD, version="1.2"), "version must be major.minor.patch"),
        (lambda: replace(OLD, key=["nope"]), "key must name columns of silver/orders, not nope"),
        (lambda: columns(amount=None) and quality(null_shares={"nope": 0.1}), "null_shares must name columns"),
        (lambda: quality(null_shares={"amount": 1.1}), "null_shares must be shares from 0 to 1"),
        (lambda: quality(allowed={"status": []}), "allowed must give status different values"),
        (lambda: quality(daily_rows_min=2, daily_rows_max=1), "daily_rows_max must be at least"),
        (lambda: sla(due="8"), "due must be a time of day"),
        (lambda: sla(fresh_hours=0.0), "fresh_hours must be above 0"),
        (lambda: replace(OLD, notice_days=-1), "notice_days must be 0 or more"),
        (lambda: read_contract({"kind": "Dataset"}), "must be a DataContract"),
        (lambda: read_contract({**contract_document(OLD), "schema": []}), "must describe one table"),
        (lambda: ChangeRequest.from_dict({"contract": "x"}), "must be a change request"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(wrong, said):
    """By the name of the option."""
    with pytest.raises(ConfigError, match=said):
        wrong()


def request_of(name):
    return ChangeRequest(
        contract=name, version="1.0.0", changes=[], affected=["a"], requested_at=NOW, deadline=NOW + DAY
    )


def test_a_request_is_written_down_and_read():
    """With times and acknowledgements, in JSON values."""
    request = request_of("gold/x").acknowledged_by("a", NOW)
    assert ChangeRequest.from_dict(json.loads(json.dumps(request.as_dict()))) == request


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
PURPOSES = st.lists(st.sampled_from(["billing", "fraud, too"]), unique=True).map(tuple)
SCALARS = st.sampled_from(["STRING", "BIGINT", "DATE", "TIMESTAMP_NTZ", "DECIMAL(9,2)", "BINARY", "INTERVAL DAY"])
TYPES = st.one_of(
    SCALARS,
    SCALARS.map(lambda each: f"ARRAY<{each}>"),
    st.tuples(SCALARS, SCALARS).map(lambda each: f"MAP<STRING, STRUCT<a: {each[0]}, b: {each[1]} NOT NULL>>"),
)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@st.composite
def contracts(draw):
    """Contracts with everything that a contract may say."""
    stated = st.builds(Column, TYPES, TEXTS, st.booleans(), classification=st.sampled_from(CLASSES), purpose=PURPOSES)
    held = draw(st.dictionaries(NAMES, stated, min_size=1, max_size=4))
    some = st.lists(st.sampled_from(sorted(held)), unique=True)
    of_columns = st.sampled_from(sorted(held))
    return Contract(
        name="gold/x",
        version="1.0.0",
        owner=draw(TEXTS),
        columns=held,
        partition_by=draw(some),
        key=draw(some),
        comment=draw(TEXTS),
        defaults=draw(st.dictionaries(of_columns, TEXTS)),
        quality=Quality(
            checks=draw(st.dictionaries(NAMES, TEXTS, max_size=2)),
            rules=draw(st.dictionaries(NAMES, TEXTS, max_size=2)),
            null_shares={name: draw(st.integers(0, 1000)) / 1000 for name in draw(some)},
            allowed=draw(st.dictionaries(of_columns, st.lists(TEXTS, min_size=1, unique=True, max_size=3))),
            daily_rows_min=draw(st.none() | st.integers(0, 9)),
            daily_rows_max=draw(st.none() | st.integers(9, 99)),
        ),
        sla=Sla(fresh_hours=draw(st.none() | st.integers(1, 99).map(float)), due="07:30", weekdays=["monday"]),
        consumers=[Consumer(each, "", draw(st.none() | some)) for each in draw(st.lists(NAMES, unique=True))],
        notice_days=draw(st.integers(0, 90)),
        published_at=draw(st.none() | st.datetimes(timezones=st.just(timezone.utc))),
    )


SCHEMA = json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft201909Validator(SCHEMA)


@given(contracts())
def test_a_document_is_valid_and_says_the_whole_contract(contract):
    """By the JSON schema of the standard; what is read back is the contract, so that nothing differs."""
    document = json.loads(json.dumps(contract_document(contract)))
    VALIDATOR.validate(document)
    assert read_contract(document) == contract
    assert not differences(contract, read_contract(document))


def test_allowed_values_of_a_whole_number_are_numbers_in_the_document():
    """And texts otherwise; both are read back as they were."""
    contract = quality(allowed={"small": ["0", "-7"], "code": ["0", "x"]})
    document = contract_document(contract)
    held = {each["name"]: each.get("enum") for each in document["schema"][0]["properties"]}
    assert held["small"] == [{"value": 0}, {"value": -7}]
    assert held["code"] == [{"value": "0"}, {"value": "x"}]
    VALIDATOR.validate(document)
    assert read_contract(document) == contract


@pytest.mark.parametrize("stated", ["2026-01-05T12:00:00Z", "2026-01-05T13:00:00+01:00", "2026-01-05 12:00:00", NOW])
def test_the_time_of_a_publication_is_read_as_utc(stated):
    """As a text of the standard, or as YAML reads an unquoted one."""
    assert read_contract({**contract_document(OLD), "contractCreatedTs": stated}).published_at == NOW
    with pytest.raises(ConfigError, match=r"contractCreatedTs must be a time like .*, not 'yesterday'"):
        read_contract({**contract_document(OLD), "contractCreatedTs": "yesterday"})


LISTING = {
    "of a required column": ("status", "status IN ({})"),
    "with NULL": ("code_name", "code_name IS NULL OR code_name IN ({})"),
    "of a whole number": ("size", "`size` IN ({})"),
}


@pytest.mark.parametrize(("column", "check"), LISTING.values(), ids=[*LISTING])
def test_a_check_that_lists_values_is_judged_by_its_values(column, check):
    """A further one breaks readers that enumerate them, one less the owner alone, another order and spelling nobody."""
    known = {**COLUMNS, "code_name": Column("STRING"), "size": Column("INT", required=True)}
    first, second, third = ("1", "2", "3") if column == "size" else ("'a'", "'b'", "'c'")

    def listing(*values):
        checks = {**OLD.quality.checks, "known": check.format(" , ".join(values))}
        return replace(OLD, columns=known, quality=replace(OLD.quality, allowed={}, checks=checks))

    before = listing(first, second)
    assert not differences(before, listing(second, first, second))
    (more,), (fewer,) = differences(before, listing(first, second, third)), differences(before, listing(first))
    assert (more.path, more.breaks, more.columns) == (f"quality.allowed.{column}", ("consumer",), (column,))
    assert (fewer.path, fewer.breaks, fewer.columns) == (f"quality.allowed.{column}", ("producer",), (column,))
    (gone,) = differences(before, replace(OLD, columns=known, quality=replace(OLD.quality, allowed={})))
    assert gone.breaks == ("consumer",)


@pytest.mark.parametrize(
    "check",
    [
        "code_name IN ('a')",  # says also that it is not NULL, which the column does not
        "status IN ('a') AND amount > 0",
        "status IN ('a') AND status IN ('b')",
        "status NOT IN ('a')",
        "status = 'a'",
        "upper(status) IN ('A')",
        "wide IN ('a')",  # CHAR is compared with its blanks
    ],
)
def test_a_check_that_says_more_stays_a_check(check):
    """A list of values would lose a part of it; another text breaks both sides, as that of any rule."""
    known = {**COLUMNS, "code_name": Column("STRING"), "wide": Column("CHAR(3)", required=True)}
    held = replace(OLD, columns=known, quality=replace(OLD.quality, allowed={}, checks={"rule": check}))
    assert with_allowed(held) == held
    (found,) = differences(held, replace(held, quality=replace(held.quality, checks={"rule": f"{check} OR true"})))
    assert (found.path, found.breaks) == ("quality.checks.rule", ("consumer", "producer"))


def test_two_lists_of_one_column_are_one_list_and_a_check():
    """Stated values come first: what both allow is in neither list alone."""
    checks = {"one": "status IN ('pending')", "two": "order_id IN ('a', 'b')", "three": "order_id IN ('b')"}
    found = with_allowed(replace(OLD, quality=replace(OLD.quality, checks=checks))).quality
    assert found.allowed == {"status": ("pending", "shipped"), "order_id": ("a", "b")}
    assert {*found.checks} == {"one", "three"}


def test_the_schema_refuses_what_is_no_contract():
    """So that the property above can fail: an unknown key, and a type that the standard has not."""
    document = contract_document(OLD)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**document, "consumers": []})
    document["schema"][0]["properties"][0]["logicalType"] = "text"
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)


@given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=2, max_size=2))
def test_there_and_back_exchanges_the_sides(names):
    """What is looser one way is tighter the other way, for every pair of contracts of the matrix."""
    one, other = (CHANGES[name][0] for name in names)
    there, back = ({e.path.lower(): e.breaks for e in differences(*pair)} for pair in ((one, other), (other, one)))
    assert there.keys() == back.keys()
    assert bool(there) == (one != replace(other, consumers=one.consumers)) or {*names} & {*SAME}


@pytest.mark.parametrize(("old", "new"), [*product(("INT", "BIGINT", "DOUBLE"), ("INT", "BIGINT", "DOUBLE"))])
def test_only_a_wider_whole_number_is_compatible(old, new):
    """No whole number becomes a double: above 2 to the 53rd it would lose digits, as in the source's list."""
    one, other = (replace(OLD, columns={**COLUMNS, "small": Column(kind)}) for kind in (old, new))
    found = judge_change(one, other, {}, NOW)
    assert bool(found.figures["breaking"]) == ((old, new) != ("INT", "BIGINT") and old != new)


def test_a_document_of_others_is_read_by_the_types_of_the_standard():
    """Without a physical type, and with nothing but what the standard requires."""
    properties = [{"name": "id", "logicalType": "integer"}, {"name": "at", "logicalType": "timestamp"}]
    stated = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "x", "version": "1.0.0"}
    contract = read_contract({**stated, "schema": [{"name": "orders", "properties": properties}]})
    assert {name: each.type for name, each in contract.columns.items()} == {"id": "BIGINT", "at": "TIMESTAMP"}
    assert contract.name == "orders"


@known_calls
def calls_that_work(known):
    columns = {"day": Column("DATE"), "user": Column("STRING")}
    old = Contract(name="gold/daily", version="1.0.0", owner="team:web", columns=columns)
    new = replace(old, columns={"day": Column("DATE")}, consumers=[Consumer("dashboards")])
    read = ColumnLineage({"user": ColumnOrigin((ColumnInput("gold/daily", "user"),))})
    change = {"old": old, "new": new, "lineages": {"gold/report": read}, "now": NOW, "perspectives": ["consumer"]}
    request = request_change(old, new, {}, NOW)
    return {"judge_change": {**change, "request": request}, "request_change": change}
