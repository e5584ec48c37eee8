"""GDPR Erasure."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, SuppressionList, Table, Update, store_at
from dedp_assets.patterns.delta.maintenance import hold_partition
from dedp_assets.patterns.governance.gdpr_erase import Erasure, Persons, erase_person, find_person
from tests.canaries import Canary, Search, people, texts_in
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back, refusal

KEY = MaskingKey("home", b"32 random bytes, which these are not")
AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
RUN = a_run("erasure", at=NOW + timedelta(days=1))
LATER = NOW + timedelta(days=2)
USERS = TableSpec(
    "silver/users",
    {
        "user_id": Column("STRING", classification="personal", subject="user"),
        "email": Column("STRING", classification="personal", subject="email"),
        "biography": Column("STRING", classification="personal"),
    },
)
VISITS = TableSpec(
    "silver/visits",
    {
        "id": Column("INT"),
        "user_id": Column("STRING", classification="personal", subject="user"),
        "day": Column("STRING"),
    },
    partition_by=("day",),
)
LETTERS = TableSpec(
    "silver/letters",
    {
        "raw": Column(
            "STRING", classification="personal", subject="email", subject_by="get_json_object(raw, '$.mail')"
        ),
        "n": Column("INT"),
    },
)
PERSONS = 200
EMAILS = [canary.value.decode() for canary in people(5 * PERSONS)[::5]]
"""Addresses of which no half is another's."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory, spark):
    """200 users with addresses that only their row names, ten visits of each on two days, letters by address."""
    folder = tmp_path_factory.mktemp("stored")
    users = [(f"user-{n:04}", canary, f"I am {canary}.") for n, canary in enumerate(EMAILS)]
    visits = [(10 * n + m, f"user-{n:04}", f"2026-01-0{5 + m % 2}") for n in range(PERSONS) for m in range(10)]
    letters = [(f'{{"mail": "{canary}", "n": {n}}}', n) for n, canary in enumerate(EMAILS)]
    for spec, rows in ((USERS, users), (VISITS, visits), (LETTERS, letters)):
        frame = spark.createDataFrame(rows, ", ".join(f"{c} {v.type}" for c, v in spec.columns.items()))
        Table(spec, folder / spec.name, spark).overwrite(frame, provenance=a_run(spec.name, at=NOW))
    return folder


@pytest.fixture
def lake(stored, tmp_path, spark):
    """The tables, each with the list, the list, and the folder."""
    folder = tmp_path / "lake"
    shutil.copytree(stored, folder)
    suppressed = SuppressionList(store_at(folder / "_suppressed"), KEY)
    tables = {spec.name: Table(spec, folder / spec.name, spark) for spec in (VISITS, LETTERS, USERS)}
    for table in tables.values():
        table.suppression = suppressed
    return tables, suppressed, folder


def asked(*users, **options):
    return Erasure(**{"request": "T-1", "ids": {"user": list(users)}, "at": AT, **options})


def erase(tables, erasure, suppressed, **options):
    return erase_person(erasure, [table.target(RUN) for table in tables.values()], suppressed, **options)


def hits(folder, *canaries):
    """The places of a folder that hold one of the values."""
    search = Search([Canary(str(n), value.encode()) for n, value in enumerate(canaries)])
    return [name for name, content in texts_in(folder) if search.found(content)]


def test_no_byte_of_two_hundred_persons_is_left(lake):
    """Neither in data, old versions, logs, records nor plans; the rows of others are equal."""
    (tables, suppressed, folder) = lake
    gone, left = range(0, PERSONS, 2), {f"user-{n:04}" for n in range(1, PERSONS, 2)}
    others = {name: [r for r in read_back(t) if not _is_of(r, gone)] for name, t in tables.items()}
    names = [f"user-{n:04}" for n in gone]
    erased = erase(tables, asked(*names, most=0.6), suppressed)
    assert erased.figures["tables"] == {"silver/visits": 1000, "silver/letters": 100, "silver/users": 100}
    assert hits(folder, *[EMAILS[n] for n in gone], *names) == []
    assert {name: read_back(table) for name, table in tables.items()} == others
    assert {row["user_id"] for row in read_back(tables["silver/users"])} == left


def _is_of(row, gone):
    named = {f"user-{n:04}" for n in gone}
    return row.get("user_id") in named or row.get("n") in gone if "biography" not in row else row["user_id"] in named


def test_the_ids_of_a_person_are_found_by_the_rows_that_have_two(lake):
    """The address stands beside the user's id in one table, and alone in another."""
    (tables, suppressed, _) = lake
    found = Persons.found([*tables.values()], asked("user-0003").ids, suppressed).ids
    assert found == {"user": ["user-0003"], "email": [EMAILS[3]]}


def test_a_plan_counts_and_changes_nothing(lake):
    """Rows, files and bytes by table."""
    (tables, suppressed, _) = lake
    versions = {name: table.ledger.version() for name, table in tables.items()}
    plan = find_person([*tables.values()], asked("user-0003"), suppressed)
    counts = {each["table"]: (each["rows"], each["of"]) for each in plan.figures["tables"]}
    assert plan.passed
    assert counts == {"silver/visits": (10, 2000), "silver/letters": (1, 200), "silver/users": (1, 200)}
    assert all(each["files"] > 0 and each["bytes"] > 0 for each in plan.figures["tables"])
    assert {name: table.ledger.version() for name, table in tables.items()} == versions
    assert suppressed.digests() == {}


def test_late_rows_replays_and_merges_do_not_bring_the_person_back(lake, spark):
    """Whatever the way in, and whichever id the row has."""
    (tables, suppressed, folder) = lake
    erase(tables, asked("user-0003"), suppressed)
    value = EMAILS[3]
    late = spark.createDataFrame(
        [(9001, "user-0003", "2026-01-05"), (9002, "user-0004", "2026-01-05")], "id INT, user_id STRING, day STRING"
    )
    tables["silver/visits"].append(late, provenance=a_run(sequence=7, at=LATER))
    letter = spark.createDataFrame([(f'{{"mail": "{value}"}}', 1)], "raw STRING, n INT")
    tables["silver/letters"].append(letter, provenance=a_run(sequence=7, at=LATER))
    user = spark.createDataFrame([("user-0003", value, "back")], "user_id STRING, email STRING, biography STRING")
    tables["silver/users"].merge(user, Merge(["user_id"], [Update(), Insert()]), provenance=a_run(at=LATER))
    assert hits(folder, value, "user-0003") == []
    assert 9002 in {row["id"] for row in read_back(tables["silver/visits"])}


def test_the_same_request_twice_is_one(lake):
    """The second finds nothing, commits no deletion, and purges nothing."""
    (tables, suppressed, _) = lake
    erase(tables, asked("user-0003"), suppressed)
    versions = {name: table.ledger.version() for name, table in tables.items()}
    again = erase(tables, asked("user-0003"), suppressed)
    assert (again.figures["erased"], again.applied) == (0, False)
    assert {name: table.ledger.version() for name, table in tables.items()} == versions
    assert len(suppressed.store.list()) == 1


def test_a_person_without_rows_is_logged_and_suppressed(lake):
    """Nothing is erased; the person is not written later either."""
    (tables, suppressed, _) = lake
    done = erase(tables, asked("nobody-here"), suppressed, purge=False)
    assert (done.applied, done.figures["erased"]) == (False, 0)
    assert suppressed.among("user", ["nobody-here"]) == {"nobody-here"}


def test_an_id_of_too_many_rows_is_refused_before_a_change(lake):
    """A tenth of the rows at most, unless more is stated."""
    (tables, suppressed, _) = lake
    many = asked(*[f"user-{n:04}" for n in range(30)])
    said = refusal(lambda: erase(tables, many, suppressed))
    assert "nothing was erased: the ids are of 300 of 2000 rows of silver/visits (15%, at most 10%)" in said
    assert suppressed.digests() == {}
    assert len(read_back(tables["silver/visits"])) == 2000


def test_a_table_on_hold_is_refused_or_left(lake):
    """By default nothing is changed anywhere; or all but the held partition goes, and its table keeps its past."""
    (tables, suppressed, _) = lake
    visits = tables["silver/visits"]
    hold_partition(visits, {"day": "2026-01-05"}, a_run(at=NOW), by="legal", because="case 17", release=False)
    said = refusal(lambda: erase(tables, asked("user-0003"), suppressed))
    assert "silver/visits is on legal hold: day=2026-01-05 (legal: case 17)" in said
    assert suppressed.digests() == {}
    erase(tables, asked("user-0003", held="leave"), suppressed)
    left = [row for row in read_back(visits) if row["user_id"] == "user-0003"]
    assert {row["day"] for row in left} == {"2026-01-05"}
    assert len(left) == 5


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_run_after_a_crash_goes_on(lake, monkeypatch, step):
    """Whichever write of the log dies, the next run erases what is left, and nobody is half there."""
    (tables, suppressed, folder) = lake
    calls = iter(range(100))
    puts = type(tables["silver/users"].store).put_if_absent

    def dying(self, path, content):
        if next(calls) == step:
            raise SystemExit(path)
        return puts(self, path, content)

    with monkeypatch.context() as patched:
        patched.setattr(type(tables["silver/users"].store), "put_if_absent", dying)
        with pytest.raises(SystemExit):
            erase(tables, asked("user-0003"), suppressed)
    erase(tables, asked("user-0003"), suppressed)
    assert hits(folder, EMAILS[3], "user-0003") == []
    assert {name: len(read_back(table)) for name, table in tables.items()} == {
        "silver/visits": 1990,
        "silver/letters": 199,
        "silver/users": 199,
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"request": " "}, "request must be a name"),
        ({"ids": {}}, "ids must name at least one person"),
        ({"ids": {"user": [""]}}, "a text that is not empty"),
        ({"ids": {"user": [" "]}}, "ids must name at least one person"),
        ({"at": datetime(2026, 1, 5)}, "at must be a datetime with a time zone"),  # noqa: DTZ001
        ({"most": 0.0}, "most must be a share above 0"),
    ],
)
def test_a_request_that_names_nobody_is_refused(wrong, said):
    """An empty id would match rows without a person."""
    with pytest.raises(ConfigError, match=said):
        Erasure(**{"request": "T-1", "ids": {"user": ["u"]}, "at": AT, **wrong})


def test_a_kind_that_no_table_declares_is_refused(lake):
    """It would find nobody, and the report would say that nobody was there."""
    (tables, suppressed, _) = lake
    with pytest.raises(ConfigError, match=r"ids must be of a kind that a table declares .*\(email, user\), not device"):
        find_person([*tables.values()], asked(ids={"device": ["d"]}), suppressed)


def test_ids_that_lead_to_too_many_are_refused(lake, spark):
    """A shared address is nobody's own."""
    (tables, suppressed, _) = lake
    rows = [(f"team-{n}", "all@example.com", "") for n in range(1001)]
    shared = spark.createDataFrame(rows, "user_id STRING, email STRING, biography STRING")
    tables["silver/users"].overwrite(shared, provenance=replace(a_run(at=LATER), inputs={"x": 1}))
    with pytest.raises(ContractError, match="lead to more than 1000 ids of user"):
        Persons.found([*tables.values()], {"email": ["all@example.com"]}, suppressed)


@known_calls
def calls_that_work(known):
    columns = {"id": Column("INT"), "user": Column("STRING", classification="personal", subject="user")}
    table = known.at(TableSpec("silver/of_persons", columns))
    table.overwrite(known.frame("id INT, user STRING", (1, "ada")), provenance=known.run)
    gone = SuppressionList(store_at(str(known.folder / "suppressed")), KEY)
    return {"find_person": {"tables": [table], "erasure": asked("ada"), "suppressed": gone}}
