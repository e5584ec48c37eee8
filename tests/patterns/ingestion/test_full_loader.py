"""A full load: the table equals its source after it, and equals its former self if anything goes wrong."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.delta.staging.stages import Stage
from dedp_assets.patterns.delta.versions import version_of
from dedp_assets.patterns.idempotency.proxy import switch_version
from dedp_assets.patterns.ingestion.full_loader import load_full
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, read_back
from tests.two_runs import two_runs

DEVICES = TableSpec(
    "bronze/devices",
    {"name": Column("STRING", "key", required=True), "label": Column("STRING", "what people call it")},
    comment="One row per device.",
)


@pytest.fixture
def devices(make_table):
    """A table that is replaced whole."""
    return make_table(DEVICES)


@pytest.fixture
def snapshot(spark):
    """``snapshot(A="a1")``: a complete delivery, by device name."""

    def rows(**labels):
        values = ", ".join(f"('{name}', '{label}')" for name, label in labels.items())
        return spark.sql(f"SELECT * FROM VALUES {values} AS delivered(name, label)")

    return rows


@pytest.fixture
def many(spark):
    """``many(10, "v1")``: as many devices, all with the same label."""
    return lambda count, label="v1": spark.range(count).selectExpr("concat('d', id) AS name", f"'{label}' AS label")


def labels(table, version=None):
    """What the table holds, by device name, through an independent reader."""
    rows = read_back(table, version)
    held = {row["name"]: row["label"] for row in rows}
    assert len(held) == len(rows)
    return held


@contextmanager
def polled(table):
    """Look at the table from another thread for the time of the block: (rows, labels) of each look."""
    done, seen = Event(), []

    def look():
        while not done.is_set():
            found = DeltaTable(str(table.location)).to_pyarrow_table()["label"].to_pylist()
            seen.append((len(found), frozenset(found)))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            yield seen
        finally:
            done.set()
        looking.result()


@pytest.mark.both
def test_the_table_equals_its_source_after_each_load(devices, snapshot):
    """Deleted devices are gone, changed ones changed, new ones there; an unchanged delivery changes nothing."""
    load_full(snapshot(A="a1", B="b1", C="c1"), devices.target(a_run(inputs={"landing": "1"})))
    assert labels(devices) == {"A": "a1", "B": "b1", "C": "c1"}
    second = snapshot(A="a2", C="c1", D="d1")
    replaced = load_full(second, devices.target(a_run(inputs={"landing": "2"})))
    assert (replaced.applied, replaced.changed, replaced.rows.written) == (True, True, 3)
    assert labels(devices) == {"A": "a2", "C": "c1", "D": "d1"}
    files = active_files(devices)
    again = load_full(second, devices.target(a_run(inputs={"landing": "3"})))
    assert not again.changed
    assert labels(devices) == {"A": "a2", "C": "c1", "D": "d1"}
    assert active_files(devices) == files


def test_a_load_is_one_commit(devices, many):
    """There is no version without rows between the old ones and the new ones."""
    load_full(many(4), devices.target(a_run()))
    before = devices.ledger.version()
    load_full(many(5, "v2"), devices.target(a_run()))
    (commit,) = devices.ledger.commits(since=before)
    newest = DeltaTable(str(devices.location)).history()[0]
    assert (newest["version"], newest["operation"]) == (commit.version, "WRITE")
    assert newest["operationParameters"]["mode"] == "Overwrite"
    assert (commit.rows_added, commit.record.pattern) == (5, "ingestion.full_loader")


def test_a_reader_sees_only_complete_datasets(devices, many):
    """Whoever reads while loads run in a loop gets all of the old rows or all of the new ones."""
    sizes = {"v1": 30, "v2": 45}
    load_full(many(sizes["v1"], "v1"), devices.target(a_run()))
    with polled(devices) as seen:
        for label in ("v2", "v1", "v2", "v1", "v2"):
            load_full(many(sizes[label], label).repartition(3), devices.target(a_run()))
    assert set(seen) == {(count, frozenset({label})) for label, count in sizes.items()}


@pytest.mark.parametrize("failure", [OSError("disk full"), SystemExit("killed")], ids=repr)
def test_a_load_that_dies_before_its_commit_leaves_the_table_as_it_was(devices, many, monkeypatch, failure):
    """Written but uncommitted files belong to nobody; the rerun publishes the delivery once."""
    load_full(many(4, "v1"), devices.target(a_run()))
    version, rows, run = devices.ledger.version(), labels(devices), a_run(inputs={"landing": "2"})

    def die(*_, **__):
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(stage_commit, "commit_files", die)
        with pytest.raises(type(failure), match=str(failure)):
            load_full(many(5, "v2"), devices.target(run))
    assert (devices.ledger.version(), labels(devices)) == (version, rows)
    assert load_full(many(5, "v2"), devices.target(run)).version == version + 1
    assert labels(devices) == {f"d{n}": "v2" for n in range(5)}


def test_a_source_that_breaks_in_the_middle_leaves_the_table_as_it_was(devices, many):
    """One unreadable row fails the whole load, and the corrected delivery loads as if nothing had happened."""
    load_full(many(4, "v1"), devices.target(a_run()))
    version, rows, run = devices.ledger.version(), labels(devices), a_run(inputs={"landing": "2"})
    label = "if(name = 'd3', raise_error('unreadable source file'), 'v2') AS label"
    broken = many(5).repartition(2).selectExpr("name", label)
    with pytest.raises(PySparkException, match="unreadable source file"):
        load_full(broken, devices.target(run))
    assert (devices.ledger.version(), labels(devices)) == (version, rows)
    assert load_full(many(5, "v2"), devices.target(run)).applied
    assert labels(devices) == {f"d{n}": "v2" for n in range(5)}


def test_a_load_that_dies_after_its_commit_is_not_loaded_twice(devices, many, monkeypatch):
    """The rerun finds its own transaction in the log and says so."""
    load_full(many(4, "v1"), devices.target(a_run()))
    run = a_run(inputs={"landing": "2"}, run_id="run-2")

    def die(_):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Stage, "finish", die)
        with pytest.raises(SystemExit):
            load_full(many(5, "v2"), devices.target(run))
    version = devices.ledger.version()
    rerun = load_full(many(5, "v2"), devices.target(run))
    assert (rerun.applied, rerun.version, devices.ledger.version()) == (False, version, version)
    assert rerun.reason == f"already applied at version {version} by run run-2: nothing to do"
    assert labels(devices) == {f"d{n}": "v2" for n in range(5)}


@pytest.mark.parametrize(
    ("delivered", "words"),
    [
        (4, "volume_is_plausible: below 0.5"),
        (21, "volume_is_plausible: above 2"),
        (0, "delivery_is_not_empty: below 1"),
    ],
)
def test_an_implausible_volume_is_refused_before_the_swap(devices, many, delivered, words):
    """A delivery that shrank, exploded or is empty replaces nothing."""
    load_full(many(10, "good"), devices.target(a_run()))
    version = devices.ledger.version()
    with pytest.raises(AuditFailed, match=words):
        load_full(many(delivered, "bad"), devices.target(a_run()))
    assert devices.ledger.version() == version
    assert labels(devices) == {f"d{n}": "good" for n in range(10)}


@pytest.mark.parametrize("blind", ["no statistics", "deletion vectors"])
def test_the_guard_counts_where_the_log_does_not_know(make_table, spark, many, blind):
    """Nine of ten rows are gone from the delivery: neither missing statistics nor rows deleted by a mark hide it."""
    marked = {"delta.enableDeletionVectors": "true"} if blind == "deletion vectors" else {}
    table = make_table(replace(DEVICES, properties=marked))
    load_full(many(20, "good"), table.target(a_run()))
    if blind == "deletion vectors":
        spark.sql(f"DELETE FROM delta.`{table.location}` WHERE name IN ('d0', 'd1', 'd2', 'd3', 'd4')")
    else:
        log = table.location / "_delta_log" / f"{table.ledger.version():020d}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    present = 15 if marked else 20
    with pytest.raises(AuditFailed, match=rf"volume_is_plausible: below 0.5 \(written=2, present={present}"):
        load_full(many(2, "bad"), table.target(a_run(run_id="run-2")))
    assert len(table.read().collect()) == present


def test_an_empty_first_delivery_is_refused(devices, many):
    """Without anything to compare with, the least number of rows still counts."""
    with pytest.raises(AuditFailed, match="delivery_is_not_empty"):
        load_full(many(0), devices.target(a_run()))
    with pytest.raises(AuditFailed, match="delivery_is_not_empty: below 3"):
        load_full(many(2), devices.target(a_run()), min_rows=3)
    assert read_back(devices) == []


@pytest.mark.parametrize(
    ("delivered", "bounds"),
    [(5, {}), (20, {}), (3, {"max_shrink": 0.7}), (0, {"min_rows": 0, "max_shrink": 1.0})],
)
def test_a_volume_at_the_bound_is_loaded(devices, many, delivered, bounds):
    """The bounds name the most that is allowed: exactly that much is still a good delivery."""
    load_full(many(10, "v1"), devices.target(a_run()))
    load_full(many(delivered, "v2"), devices.target(a_run()), **bounds)
    assert labels(devices) == {f"d{n}": "v2" for n in range(delivered)}


def test_a_doubled_source_loads_and_its_growth_is_on_record(devices, many):
    """Rows before and after stand in the result and in the commit, so that growth can be watched."""
    load_full(many(500), devices.target(a_run()))
    doubled = load_full(many(1000), devices.target(a_run()))
    assert (doubled.figures["present"], doubled.figures["written"], doubled.rows.written) == (500, 1000, 1000)
    assert devices.ledger.commit(doubled.version).record.figures == doubled.figures
    assert len(read_back(devices)) == 1000


def test_a_named_person_may_approve_a_volume(devices, many):
    """An unusual delivery that is right gets in, and its commit says by whom and why."""
    load_full(many(10), devices.target(a_run()))
    approval = Approval(by="Ada", because="most of the fleet was retired")
    result = load_full(many(2), devices.target(a_run(approval=approval)))
    record = devices.ledger.commit(result.version).record
    assert record.verdict == "approved"
    assert record.approval == {"by": "Ada", "because": "most of the fleet was retired"}
    assert {f["name"] for f in record.findings if f["approved_by"] == "Ada"} == {"volume_is_plausible"}
    assert labels(devices) == {"d0": "v1", "d1": "v1"}


def test_an_approval_covers_only_what_may_be_approved(devices, many):
    """The caller's own audit is judged beside the guard, and no approval of the volume opens it."""
    load_full(many(10), devices.target(a_run()))
    labelled = Audit.none_where("every_device_has_a_label", "label IS NULL")
    rows = many(2).selectExpr("name", "nullif(label, 'v1') AS label")
    with pytest.raises(AuditFailed, match="every_device_has_a_label") as refused:
        load_full(rows, devices.target(a_run(approval=Approval(by="Ada", because="retired")), audits=[labelled]))
    assert {f.name for f in refused.value.findings if f.refuses} == {"every_device_has_a_label"}
    assert len(read_back(devices)) == 10


@pytest.mark.parametrize("bounds", [{"max_shrink": -0.1}, {"max_shrink": 1.1}, {"max_growth": 0.9}, {"min_rows": -1}])
def test_bounds_that_would_refuse_every_delivery_are_refused(devices, many, bounds):
    """Impossible options are an error of the call, found before anything is created."""
    with pytest.raises(ConfigError, match="max_shrink"):
        load_full(many(3), devices.target(a_run()), **bounds)
    assert not devices.ledger.exists()


def test_of_a_split_only_the_valid_part_is_loaded(devices, snapshot):
    """What was diverted on the way in is accounted for and not in the table."""
    rows = snapshot(A="a1", B="b1", C="c1").selectExpr("*", "if(name = 'B', 'dead', 'valid') AS __dedp_outcome")
    split = Split(rows, {"valid": ("name", "label"), "dead": ("name",)}, identity=("name",))
    result = load_full(split, devices.target(a_run()))
    assert (result.rows.read, result.rows.written, result.rows.dead) == (3, 2, 1)
    assert labels(devices) == {"A": "a1", "C": "c1"}


def test_the_former_dataset_stays_readable_and_can_be_restored(devices, snapshot):
    """A bad load is rolled back in one commit; what was undone is forgotten, so the same load may run again."""
    good = load_full(snapshot(A="a1", B="b1"), devices.target(a_run(inputs={"landing": "1"})))
    run = a_run(inputs={"landing": "2"})
    bad = load_full(snapshot(A="oops", B="oops"), devices.target(run))
    assert labels(devices, good.version) == {"A": "a1", "B": "b1"}
    restored = devices.restore(good.version, provenance=a_run(cause="rollback"))
    assert devices.ledger.commit(restored.version).record.cost.seconds > 0
    assert labels(devices) == {"A": "a1", "B": "b1"}
    assert labels(devices, bad.version) == {"A": "oops", "B": "oops"}
    assert devices.ledger.commit(restored.version).record.cause == "rollback"
    assert load_full(snapshot(A="oops", B="oops"), devices.target(run)).applied
    assert labels(devices) == {"A": "oops", "B": "oops"}


def test_the_former_dataset_is_readable_until_it_is_vacuumed(devices, many):
    """Within the retention a vacuum leaves it; past it the former rows cannot be read, and the present ones can."""
    former = load_full(many(4, "v1"), devices.target(a_run()))
    load_full(many(5, "v2"), devices.target(a_run()))
    table = DeltaTable(str(devices.location))
    table.vacuum(dry_run=False)
    assert labels(devices, former.version) == {f"d{n}": "v1" for n in range(4)}
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(OSError, match="staged-"):
        labels(devices, former.version)
    assert labels(devices) == {f"d{n}": "v2" for n in range(5)}


def test_with_versions_the_name_moves_with_a_load_that_passed_and_with_no_other(devices, many):
    """A delivery that is refused, broken or far smaller than what is shown leaves readers on the former version."""
    load_full(many(10, "v1"), devices.target(a_run(run_id="1")), keep_versions=True)
    with pytest.raises(AuditFailed, match=r"volume_is_plausible: below 0.5 \(written=4, present=10"):
        load_full(many(4, "v2"), devices.target(a_run(run_id="2")), keep_versions=True)
    broken = many(10).selectExpr("name", "string(raise_error('broken')) AS label")
    with pytest.raises(PySparkException, match="broken"):
        load_full(broken, devices.target(a_run(run_id="3")), keep_versions=True)
    assert set(labels(devices).values()) == {"v1"}
    result = load_full(many(12, "v2"), devices.target(a_run(run_id="4")), keep_versions=True)
    assert (result.figures["present"], result.reason) == (10, "12 rows shown as 4-1 instead of 1-1")
    assert set(labels(devices).values()) == {"v2"}
    assert devices.ledger.commit(result.version).record.pattern == "ingestion.full_loader"
    with pytest.raises(ConfigError, match="is closed: its rows are those of a version"):
        load_full(many(12, "v3"), devices.target(a_run(run_id="5")))
    switch_version(devices.target(a_run(run_id="6")), version="1-1", because="wrong labels")
    assert labels(devices) == {f"d{n}": "v1" for n in range(10)}
    assert set(labels(version_of(devices, "4-1")).values()) == {"v2"}


def test_a_table_that_is_replaced_is_not_made_to_show_versions(devices, many):
    """Its rows would be hidden."""
    load_full(many(3), devices.target(a_run()))
    with pytest.raises(ConfigError, match="is a table with rows of its own"):
        load_full(many(3, "v2"), devices.target(a_run()), keep_versions=True)
    assert set(labels(devices).values()) == {"v1"}


@known_calls
def calls_that_work(known):
    return {"volume_guard": {"min_rows": 1}}


@two_runs()
def loaded_at_once(world):
    table = world.table("full", "id BIGINT")
    load_full(world.spark.range(10), table.target(world.run("base")))
    for name, rows in (("1", 6), ("2", 18)):  # of ten, neither is implausible; of each other's, one is
        yield lambda w, name=name, rows=rows: load_full(w.spark.range(rows), w.into("full", name))
