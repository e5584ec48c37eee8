"""Static Joiner."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from math import ceil
from random import Random

import pytest
from pyspark.sql import functions as F

from dedp_assets.case_study.sources.ip_locations import location_of
from dedp_assets.patterns.connectors.web.http import Patience, Service, ask_in_bulk
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, ContractError, NotReady, SchemaMismatch
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.value.static_joiner import (
    ANSWER,
    VALID,
    AsOf,
    join_static,
    judge_reference,
    keep_answers,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

USERS = "id INT, email STRING, valid_from TIMESTAMP, valid_to TIMESTAMP"
FAR = datetime(9999, 12, 31, tzinfo=timezone.utc)


def sound(reference, former=None, keys=("id",), valid=None):
    """Judge a reference, and let it pass."""
    return replace(judge_reference(reference, former, keys=keys, valid=valid), passed=True)


def moment(text):
    """An instant of 2024, like ``06-21 00:00``."""
    return datetime.strptime(f"2024-{text} +0000", "%Y-%m-%d %H:%M %z") if text else None


def history(end=None):
    """The versions of one user in the book's figure."""
    told = [("a", "06-01 00:00", "06-21 00:00"), ("b", "06-21 00:00", "07-05 00:00"), ("c", "07-05 00:00", None)]
    return [(1, email, moment(since), moment(to) or end) for email, since, to in told]


VISITS = ["06-10 12:00", "06-21 00:00", "07-04 12:00", "07-05 00:00", "05-31 12:00", "12-31 23:59", None]
ENRICHED = ["a", "b", "b", "c", None, "c", None]


def as_of(facts, reference, former=None, **more):
    """The e-mail of each visit's user at its time, in order."""
    options = {"keys": {"user": "id"}, "columns": {"email": "email"}, "as_of": AsOf("seen"), "matched": "known", **more}
    judged = sound(reference, former, [*options["keys"].values()], options["as_of"].valid)
    joined = join_static(facts, reference, judged, former, **options)
    return [(row["email"], row["known"]) for row in joined.orderBy("n").collect()]


@pytest.fixture
def visits(spark):
    """The visits of one user at the times of the book's figure, and one of nobody."""
    rows = [(n, 1, moment(at)) for n, at in enumerate(VISITS)] + [(len(VISITS), None, moment(VISITS[0]))]
    return spark.createDataFrame(rows, "n INT, user INT, seen TIMESTAMP")


@pytest.mark.both
def test_each_visit_gets_the_version_of_its_time_however_the_versions_are_kept(spark, visits):
    """Half-open: at a boundary there is one; type 2 with a NULL and a far end, type 4 with and without the current."""
    expected = [(email, email is not None) for email in [*ENRICHED, None]]
    for end in (None, FAR):
        assert as_of(visits, spark.createDataFrame(history(end), USERS)) == expected
    current = spark.createDataFrame([(1, "c", moment("07-05 00:00"))], "id INT, email STRING, valid_from TIMESTAMP")
    for former in (history()[:2], history()):
        assert as_of(visits, current, spark.createDataFrame(former, USERS)) == expected


@pytest.mark.promise("generated-versions-join-as-a")
def test_generated_versions_join_as_a_model_of_them_says(spark):
    """Facts before, between, at and after versions of several keys; deleted ones, and type 4, are as the model is."""
    random, versions, facts, expected = Random(5), [], [], {}  # noqa: S311 - test data
    for case in range(150):
        for user in range(2):
            cuts = sorted(random.sample(range(12), random.randint(0, 5) * 2))
            own = [
                (case, user, f"{case}.{user}.{a}", a, b, random.random() < 0.2)
                for a, b in zip(cuts[::2], cuts[1::2], strict=True)
            ]
            if own and random.random() < 0.5:
                own[-1] = (*own[-1][:4], None, own[-1][5])
            versions += own
        for n in range(8):
            user, at = random.choice([0, 1, 2, None]), random.choice([*range(-1, 13), None])
            facts.append((case, n, user, at))
            here = [
                v[2]
                for v in versions
                if v[:2] == (case, user) and at is not None and v[3] <= at < (99 if v[4] is None else v[4]) and not v[5]
            ]
            assert len(here) <= 1
            expected[case, n] = here[0] if here else None
    stated = spark.createDataFrame(versions, "case INT, id INT, said STRING, since INT, until INT, is_deleted BOOLEAN")
    rows = spark.createDataFrame(facts, "case INT, n INT, id INT, at INT")
    current, former = stated.filter("until IS NULL").drop("until"), stated.filter("until IS NOT NULL")
    for reference in ((stated,), (current, former)):
        keys, valid = {"case": "case", "id": "id"}, ("since", "until")
        judged = judge_reference(*reference, keys=list(keys), valid=valid)
        assert judged.passed
        found = join_static(
            rows, reference[0], judged, *reference[1:], keys=keys, columns={"said": "said"}, as_of=AsOf("at", valid)
        ).collect()
        assert len(found) == len(facts)
        assert {(row["case"], row["n"]): row["said"] for row in found} == expected


def test_generated_overlaps_are_found_as_a_comparison_of_all_pairs_finds_them(spark):
    """Whatever lies between two versions, open ones as well."""
    random, versions, overlapping = Random(6), [], 0  # noqa: S311 - test data
    for key in range(400):
        own = []
        for _ in range(random.randint(1, 4)):
            since = random.randrange(20)
            own.append((since, None if random.random() < 0.15 else since + random.randint(1, 6)))
        ends = [(a, 99 if b is None else b) for a, b in own]
        overlapping += any(a < d and c < b for i, (a, b) in enumerate(ends) for c, d in ends[i + 1 :])
        versions += [(key, *each) for each in own]
    frame = spark.createDataFrame(versions, "id INT, since INT, until INT")
    judged = judge_reference(frame, keys=["id"], valid=("since", "until"))
    assert 0 < overlapping < 400
    assert judged.figures == {"have overlapping versions": overlapping}


def test_a_reference_that_would_multiply_facts_is_refused_with_its_keys(spark, visits):
    """Two current rows, versions that overlap, end before they begin or never begin, and, where asked, gaps."""
    day = [moment(f"06-{n:02} 00:00") for n in range(1, 10)]
    faults = {
        "overlapping versions": [(7, day[1], None), (7, day[2], None)],
        "a version that ends before": [(7, day[1], day[2]), (7, day[2], day[2])],
        "without a beginning": [(7, None, day[2])],
        "a gap": [(7, day[1], day[2]), (7, day[3], None)],
    }
    for fault, versions in faults.items():
        sound = [(3, "x", day[1], day[2]), (3, "y", day[2], None), (None, "z", None, None), (None, "z", None, None)]
        users = spark.createDataFrame([*sound, *((id_, "", a, b) for id_, a, b in versions)], USERS)
        judged = judge_reference(users, keys=["id"], valid=VALID, gaps=False)
        assert not judged.passed
        assert fault in judged.note
        assert judged.note.endswith("'7'")
        with pytest.raises(AuditFailed, match=f"nothing is joined, the reference was refused: 1 keys have .*{fault}"):
            join_static(
                visits, users, keys={"user": "id"}, columns={"email": "email"}, judged=judged, as_of=AsOf("seen")
            )
    assert judge_reference(users, keys=["id"], valid=VALID).passed
    doubled = spark.createDataFrame([(1, "a"), (1, "b"), (2, "c"), (2, "c"), (3, "d")], "id INT, email STRING")
    judged = judge_reference(doubled, keys=["id"])
    assert (judged.passed, judged.note) == (False, "2 keys have several rows, '1' to '2'")
    assert judge_reference(doubled, keys=["id", "email"]).note == "1 keys have several rows, '2, c'"


def test_a_join_that_multiplies_all_the_same_is_not_published(spark, make_table):
    """Were the verdict wrong, the account of the rows read would refuse what was written; nothing is."""
    spec = TableSpec("silver/joined", {"id": Column("INT"), "email": Column("STRING")})
    facts, seen = tally(spark.range(3).selectExpr("CAST(id AS INT) AS id"), identity=["id"])
    doubled = spark.createDataFrame([(1, "a"), (1, "b")], "id INT, email STRING")
    joined = join_static(facts, doubled, keys={"id": "id"}, columns={"email": "email"}, judged=sound(doubled))
    table = make_table(spec)
    with pytest.raises(AuditFailed, match="rows_are_accounted_for"):
        table.stage(joined, provenance=a_run(), rows_read=RowsRead(tally=seen))
    assert table.ledger.version() == 0


def test_facts_without_a_match_stay_and_their_share_has_a_limit(spark, make_table):
    """Unknown and NULL keys are kept with NULLs, marked, and counted; above the limit nothing is published."""
    columns = {"n": Column("INT"), "name": Column("STRING"), "known": Column("BOOLEAN", required=True)}
    table = make_table(TableSpec("silver/named", columns))
    devices = spark.createDataFrame(
        [("tv", "1.0", "A"), ("tv", None, "B"), ("tv", "2.0", None)], "`a type` STRING, `v.1` STRING, name STRING"
    )
    facts = spark.createDataFrame(
        [(1, "tv", "1.0"), (2, "tv", "9.9"), (3, "tv", None), (4, None, None), (5, "tv", "2.0")],
        "n INT, kind STRING, version STRING",
    )
    keys = {"kind": "a type", "version": "v.1"}
    judged = judge_reference(devices, keys=list(keys.values()))
    joined = join_static(facts, devices, keys=keys, columns={"name": "name"}, judged=judged, matched="known")
    rows = joined.select(*columns)
    few = Audit(name="most_are_known", of="unknown", where="NOT known", per="written", fail_above=0.5)
    with pytest.raises(AuditFailed, match=r"most_are_known: above 0\.5"):
        table.stage(rows, provenance=a_run(), audits=[few])
    table.overwrite(rows, provenance=a_run(), audits=[replace(few, fail_above=0.6)])
    found = [(row["n"], row["name"], row["known"]) for row in read_back(table)]
    assert found == [(1, "A", True), (2, None, False), (3, None, False), (4, None, False), (5, None, True)]
    record = table.ledger.commit(table.ledger.version()).record
    assert record.figures["unknown"] == 3


def test_columns_that_cannot_be_joined_are_refused(spark, visits):
    """One that is not there or there already, partners of different types, a stream as reference, no key."""
    users = spark.createDataFrame(history(), USERS)
    join = partial(join_static, visits, keys={"user": "id"}, columns={"email": "email"}, judged=sound(users))
    with pytest.raises(ConfigError, match="no column mail"):
        join(users, columns={"mail": "email"})
    with pytest.raises(ConfigError, match="have a column seen"):
        join(users, columns={"email": "seen"})
    with pytest.raises(ConfigError, match="have a column n, which this step adds"):
        join(users, matched="N")
    with pytest.raises(SchemaMismatch, match=r"user \(and id\) is INT in the facts and STRING in the reference"):
        join(users.withColumn("id", F.expr("CAST(id AS STRING)")))
    for kind in ("DATE", "TIMESTAMP_NTZ"):
        with pytest.raises(SchemaMismatch, match=r"seen \(and valid_to\) is TIMESTAMP in the facts"):
            join(users.withColumn("valid_to", F.expr(f"CAST(valid_to AS {kind})")), as_of=AsOf("seen"))
    with pytest.raises(ConfigError, match="no column valid_to"):
        join(users.drop("valid_to"), as_of=AsOf("seen"))
    with pytest.raises(ConfigError, match="the reference is a stream"):
        join(spark.readStream.format("rate").load())
    with pytest.raises(ConfigError, match="takes a batch"):
        judge_reference(spark.readStream.format("rate").load(), keys=["value"])
    with pytest.raises(ConfigError, match="name a key, and each added column once"):
        join(users, columns={"email": "a", "id": "A"})
    with pytest.raises(ConfigError, match="name a key"):
        join(users, keys={})
    with pytest.raises(ConfigError, match="name the key columns"):
        judge_reference(users, keys=[])


@pytest.mark.parametrize("how", [None, AsOf("seen")], ids=["by key", "as of"])
def test_a_small_reference_is_sent_to_the_facts_and_a_larger_one_is_not(spark, make_table, how):
    """By the log's bytes: no Exchange of the facts up to the limit, one above; equal rows, none lost."""
    columns = {"id": Column("INT"), "email": Column("STRING"), **{name: Column("TIMESTAMP") for name in VALID}}
    table = make_table(TableSpec("silver/users", {**columns, "part": Column("INT")}, partition_by=("part",)))
    known = spark.createDataFrame([*history(), (2, "z", moment("01-01 00:00"), None)], USERS)
    table.overwrite(known.filter("email IN ('b', 'z')").selectExpr("*", "id AS part"), provenance=a_run())
    facts = spark.range(0, 40, 1, 3).selectExpr("int(id) AS n", "int(id % 4) AS user", "TIMESTAMP '2024-07-01' AS seen")
    size = sum(file["size_bytes"] for file in table.ledger.state().files())
    judged, found = sound(table.read(), valid=how.valid if how else None), {}

    def joined(**read):
        keys, taken = {"user": "id"}, {"email": "email"}
        return join_static(facts, table.read(**read), judged, keys=keys, columns=taken, as_of=how)

    for limit in (size - 1, size):
        rows = joined(broadcast_bytes=limit)
        same = sorted(map(str, rows.collect()))
        plan = rows._jdf.queryExecution().executedPlan().toString()
        assert "isFinalPlan=true" in plan
        final = plan.partition("Initial Plan")[0]
        found[limit] = final.count("BroadcastHashJoin"), final.count("SortMergeJoin"), final.count("Exchange hash")
        assert same == sorted(map(str, joined().collect()))
        assert (len(same), sum("email=None" in row for row in same)) == (40, 20)
    assert found == {size - 1: (0, 1, 2), size: (1, 0, 0)}
    with pytest.raises(ConfigError, match="broadcast_bytes must be at least 0, not -1"):
        table.read(broadcast_bytes=-1)


def test_a_verdict_on_anything_else_is_refused(spark, make_table):
    """Other rows, an older version, a filter, other keys, no time: whatever of them differs; fewer keys say more."""
    table = make_table(TableSpec("silver/two", {"id": Column("INT"), "b": Column("INT"), "until": Column("INT")}))
    table.overwrite(spark.createDataFrame([(1, 1, 2), (1, 2, None)], "id INT, b INT, until INT"), provenance=a_run())
    former, facts = table.read(), spark.createDataFrame([(1, 1, 1)], "id INT, b INT, at INT")
    judged = sound(former, keys=["id"])
    table.overwrite(
        spark.createDataFrame([(1, 1, 2), (2, 2, None)], "id INT, b INT, until INT"), provenance=a_run(run_id="2")
    )
    two, valid = table.read(), ("b", "until")
    join = partial(join_static, facts, columns={"until": "told"})
    by_both = {"id": "id", "b": "b"}
    assert join(two, keys=by_both, judged=sound(table.read(), keys=["ID"])).count() == 1
    rows = "not a verdict on other rows"
    for wrong, words, options in (
        (Finding("sound", passed=True), rows, {}),
        (judged, rows, {}),
        (sound(two.filter("b < 9")), rows, {}),
        (sound(two, two, valid=valid), rows, {"as_of": AsOf("at", valid)}),
        (sound(two, keys=["id", "b"]), r"by keys=\['id'\], valid=None, not by keys=\['b', 'id'\]", {}),
        (sound(two), r"by keys=\['id'\], valid=\['b', 'until'\], not by .* valid=None", {"as_of": AsOf("at", valid)}),
        (sound(two, valid=valid), r"valid=None, not by .* valid=\['b', 'until'\]", {}),
    ):
        with pytest.raises(ConfigError, match=words):
            join(two, keys={"id": "id"}, judged=wrong, **options)


def test_a_stream_is_joined_by_the_same_call(spark):
    """To the reference as it was when the query was written."""
    names = spark.createDataFrame([(0, "zero")], "number BIGINT, name STRING")
    ticks, columns = spark.readStream.format("rate").load(), {"name": "name"}
    assert join_static(
        ticks, names, keys={"value": "number"}, columns=columns, judged=sound(names, keys=["number"])
    ).isStreaming


def test_a_day_that_is_computed_again_after_newer_versions_says_the_same(spark, visits):
    """By the fact's time it does; by the clock, or by the current version, it would not."""
    before = spark.createDataFrame([history()[0], (1, "b", moment("06-21 00:00"), None)], USERS)
    after = spark.createDataFrame(history(), USERS)
    june = visits.filter("seen < TIMESTAMP '2024-07-05 00:00:00Z'")
    by_the_clock = june.withColumn("seen", F.expr("TIMESTAMP '2025-01-01 00:00:00Z'"))
    assert as_of(june, before) == as_of(june, after)
    assert as_of(by_the_clock, before) != as_of(by_the_clock, after)


@pytest.mark.both
def test_a_reference_that_is_overwritten_meanwhile_is_seen_whole_old_or_new(spark, make_table, tmp_path):
    """A batch keeps the version it began with; each batch of a stream has the newest one; no visit is lost."""
    devices = make_table(TableSpec("silver/devices", {"type": Column("STRING"), "name": Column("STRING")}))
    seen = make_table(
        TableSpec("silver/seen", {"n": Column("INT"), "name": Column("STRING"), "known": Column("BOOLEAN")})
    )
    join = partial(join_static, keys={"type": "type"}, columns={"name": "name"}, matched="known")

    def release(*names):
        rows = spark.createDataFrame([(f"t{n}", name) for n, name in enumerate(names)], "type STRING, name STRING")
        devices.overwrite(rows, provenance=a_run(run_id=names[0]))

    def batch(rows, number):
        now = devices.read()
        joined = join(rows, now, judged=judge_reference(now, keys=["type"])).select("n", "name", "known")
        seen.append(joined, provenance=a_run(sequence=number, run_id=f"batch-{number}"))
        release("c", "d")

    release("a", "b")
    facts = spark.createDataFrame([(n, f"t{n % 3}") for n in range(6)], "n INT, type STRING")
    begun = join(facts, devices.read(), judged=sound(devices.read(), keys=["type"]))
    facts.repartition(1).write.json(str(tmp_path / "visits" / "1"))
    facts.selectExpr("n + 6 AS n", "type").repartition(1).write.json(str(tmp_path / "visits" / "2"))
    stream = spark.readStream.schema("n INT, type STRING").option("maxFilesPerTrigger", 1).json(f"{tmp_path}/visits/*")
    query = stream.writeStream.foreachBatch(batch).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted((row["n"], row["name"]) for row in begun.collect()) == list(
        zip(range(6), ["a", "b", None] * 2, strict=True)
    )
    found = read_back(seen)
    assert sorted(row["n"] for row in found) == list(range(12))
    by_batch = {frozenset(row["name"] for row in found if row["n"] // 6 == half) for half in range(2)}
    assert by_batch == {frozenset(["a", "b", None]), frozenset(["c", "d", None])}


PLACES = TableSpec(
    "bronze/places",
    {
        "address": Column("STRING", required=True),
        "country": Column("STRING"),
        "region": Column("STRING"),
        **ANSWER,
        "day": Column("DATE", required=True),
    },
    partition_by=("day",),
)


@pytest.fixture
def places(make_table, services, spark):
    """``places(day, addresses)``: bring the day's places up to them; the table, and how many requests that took."""
    table = make_table(PLACES)
    service = Service(f"{services.url}/locations", Patience(lambda: NOW, sleep=lambda _: None))
    ask = partial(ask_in_bulk, service, asks="addresses", answers="locations", key="address", size=100)

    def keep(day, addresses, **more):
        services.requests("locations")
        facts = spark.createDataFrame([(address,) for address in addresses], "address STRING")
        run = a_run(at=more.pop("at", NOW), run_id=f"{day}/{len(addresses)}")
        partition = more.pop("partition", {"day": day})
        result = keep_answers(facts, table.target(run, partition=partition), key="address", ask=ask, **more)
        return result, services.requests("locations")

    keep.table = table
    return keep


def addresses(count, start=0):
    """As many different addresses."""
    return [f"198.51.{n // 250}.{n % 250}" for n in range(start, start + count)]


@pytest.mark.promise("a-service-is-asked-once")
def test_a_service_is_asked_once_for_each_key_and_never_again(spark, places, services):
    """0 to 250 keys take as few requests as possible; a replay takes none, be the service down or of another mind."""
    for number, count in {1: 0, 4: 101, 5: 250}.items():
        own = addresses(count, start=1000 * number)
        assert places(f"2026-01-{number:02}", [*own, *own[:3], None])[1] == ceil(count / 100)
    before = read_back(places.table)
    assert len(before) == 0 + 101 + 250
    assert {row["address"]: row["country"] for row in before} == {
        row["address"]: location_of(row["address"])["country"] for row in before
    }
    services.behave("locations", "down", times=99)
    again, requests = places("2026-01-05", addresses(250, start=5000), at=NOW + timedelta(days=9))
    assert (requests, again.rows.written, read_back(places.table)) == (0, 250, before)
    services.behave("locations", "moved", times=99)
    day = [*addresses(3, start=5000), *addresses(2, start=9000)]
    later, requests = places("2026-01-06", day, at=NOW + timedelta(days=10))
    assert (requests, later.figures["asked"]) == (1, 2)
    moved = {
        row["address"]: (row["country"], row["region"])
        for row in read_back(places.table)
        if str(row["day"]) > "2026-01-05"
    }
    for address in day[:3]:
        assert moved[address] == tuple(location_of(address).values())[1:]
    for address in day[3:]:
        assert moved[address] == tuple(location_of(address, edition="moved").values())[1:]
    facts = spark.createDataFrame([(n, address) for n, address in enumerate([*day, *day, None])], "n INT, ip STRING")
    reference = places.table.read({"day": "2026-01-06"})
    judged = judge_reference(reference, keys=["address"])
    joined = join_static(facts, reference, keys={"ip": "address"}, columns={"country": "country"}, judged=judged)
    found = [row["country"] for row in joined.orderBy("n").collect()]
    assert found == [moved[address][0] for address in [*day, *day]] + [None]


def test_known_keys_are_looked_for_where_answers_were_written_last(places):
    """Files of other partitions are not opened: they are gone. What only those knew is asked for again."""
    for day in range(1, 6):
        places(f"2026-01-{day:02}", addresses(2, start=10 * day))
    places("2026-01-02", addresses(3, start=20))  # the second day is written last but one, then
    for day in ("2026-01-01", "2026-01-03", "2026-01-04"):
        for file in places.table.location.glob(f"day={day}/*.parquet"):
            file.unlink()
    known = [*addresses(3, start=20), *addresses(2, start=50)]
    day = {"DAY": "2026-01-06"}  # as Spark compares names
    result, requests = places(day["DAY"], [*known, *addresses(2, start=30)], lookback=2, partition=day)
    assert (requests, result.figures["asked"], result.rows.written) == (1, 2, 7)


def test_a_service_that_fails_or_lies_leaves_no_row(places, services, spark):
    """Down for longer than patience, half an answer, values that do not fit, more keys than one run may ask for."""
    places("2026-01-01", addresses(2))
    before = places.table.ledger.version()
    services.behave("locations", "down", times=99)
    with pytest.raises(NotReady, match="after 4 attempts"):
        places("2026-01-02", addresses(3))
    services.behave("locations", "half")
    with pytest.raises(ContractError, match="lacks"):
        places("2026-01-02", addresses(4))
    with pytest.raises(ConfigError, match="lacks more than 3 keys"):
        places("2026-01-02", addresses(6), most=3)
    assert services.requests("locations") == 0
    facts = spark.createDataFrame([("x",)], "address STRING")
    into, timeless = (places.table.target(run, partition={"day": "2026-01-02"}) for run in (a_run(), a_run(at=None)))
    with pytest.raises(ContractError, match="does not fit the columns of bronze/places"):
        keep_answers(facts, into, key="address", ask=lambda keys: [{"address": key, "country": 7} for key in keys])
    with pytest.raises(ConfigError, match="run must be a Provenance with a time"):
        keep_answers(facts, timeless, key="address", ask=lambda _: [])
    assert places.table.ledger.version() == before


@pytest.mark.parametrize("count", [0, 1, 100, 101])
def test_a_service_can_be_joined_without_a_table_of_its_own(spark, services, count):
    """Rows out are rows in; each address is asked for once, in as few requests as possible."""
    services.requests("locations")
    service = Service(f"{services.url}/locations", Patience(lambda: NOW))
    facts = spark.range(2 * count).selectExpr("id", f"concat('198.51.100.', id % {count or 1}) AS ip")
    asked = [row["ip"] for row in facts.select("ip").distinct().collect()]
    items = ask_in_bulk(service, asked, asks="addresses", answers="locations", key="address", size=100)
    answers = spark.createDataFrame(
        [tuple(item.values()) for item in items], "address STRING, country STRING, region STRING"
    )
    judged = judge_reference(answers, keys=["address"])
    columns = {"country": "country"}
    joined = join_static(facts, answers, keys={"ip": "address"}, columns=columns, judged=judged, matched="located")
    found = [(row["country"], row["located"]) for row in joined.collect()]
    assert sorted(found) == sorted((location_of(row["ip"])["country"], True) for row in facts.collect())
    assert services.requests("locations") == ceil(count / 100)


@any_names(handed_on=("id", "email"))
def joined_static(n):
    facts = n.frame("id INT, user INT, at STRING", (1, 1, "10"), (2, 1, "12"), (3, 2, "12"), (4, None, "12"))
    told = [(1, "old", "09", "12"), (1, "new", "12", None), (3, "x", "09", None), (3, "y", "10", None)]
    users, valid = n.frame("uid INT, email STRING, since STRING, until STRING", *told), (n("since"), n("until"))
    found = judge_reference(users, keys=n.all("uid"), valid=valid)
    yield [{"note": found.note, **found.figures}]
    options = {"keys": {n("user"): n("uid")}, "columns": {n("email"): n("mail")}, "matched": n("met")}
    yield join_static(facts, users, **options, judged=replace(found, passed=True), as_of=AsOf(n("at"), valid))


@any_names(STORED)
def answered(n):
    table = n.table("ip STRING!, land STRING, day STRING", more=ANSWER, by=["day"])
    for day, ips in (("a/b=c", "123"), ("d e", "234")):
        facts = n.frame("ip STRING", *[(ip,) for ip in ips], (None,))
        ask = lambda keys: [{n("ip"): key, n("land"): f"{day}{key}"} for key in keys]  # noqa: E731, B023
        keep_answers(facts, table.target(a_run(at=NOW), partition={n("day"): day}), key=n("ip"), ask=ask)
    yield table


def test_a_column_that_is_called_as_one_that_is_added_is_refused(spark):
    """What a step adds would take the place of the user's own column: the refusal names it, and no row is wrong."""
    with pytest.raises(ConfigError, match="__dedp_"):
        judge_reference(spark.createDataFrame([], "__dedp_key INT"), keys=["__dedp_key"])


@known_calls
def calls_that_work(known):
    users = known.frame("uid INT, email STRING, valid_from STRING, valid_to STRING", (1, "a", "09", None))
    answers = {"user": Column("STRING", required=True), "land": Column("STRING"), **ANSWER, "day": Column("STRING")}
    answered = known.table("gold/answers", answers, by=("day",))
    return {
        "join_static": {
            "facts": known.visits.withColumnsRenamed({"at": "seen_at"}),
            "reference": users,
            "former": None,
            "keys": {"id": "uid"},
            "columns": {"email": "mail"},
            "judged": judge_reference(users, keys=["uid"]),
            "as_of": None,
            "matched": "met",
        },
        "judge_reference": {
            "reference": users,
            "former": None,
            "keys": ["uid"],
            "valid": ("valid_from", "valid_to"),
        },
        "keep_answers": {
            "facts": known.visits.select("user"),
            "into": answered.target(known.run, partition={"day": "mon"}),
            "key": "user",
            "ask": known.begin,
        },
    }


@two_runs()
@two_runs(days=("mon", "tue"))
def answered_at_once(world, *, days=("mon", "mon"), ips=("ab", "b")):
    table = world.table("answers", "ip STRING!, land STRING, day STRING", more=ANSWER, by=["day"])

    def write(w, name, keys, day):
        ask = lambda asked: [{"ip": key, "land": f"{key} of {name}"} for key in asked]  # noqa: E731
        into = w["answers"].target(w.run(name, at=NOW), partition={"day": day})
        keep_answers(w.frame("ip STRING", *[(k,) for k in keys]), into, key="ip", ask=ask)

    write(world, "base", "x", "sun")
    assert table.ledger.exists()
    yield lambda w: write(w, "1", ips[0], days[0])
    yield lambda w: write(w, "2", ips[1], days[1])
