"""Publishing: the ledger alone decides whether a write is new, a retry, or something else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from dedp_assets.patterns.core.errors import Conflict, NotReady, TransactionReused
from dedp_assets.patterns.core.measuring.metering import Meter
from dedp_assets.patterns.delta import Ledger, transaction_id
from dedp_assets.patterns.delta.commit import file_exchange, idempotency, spark_writer
from dedp_assets.patterns.delta.log.transactions import generation_id
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.delta.staging.stages import empty_stage
from tests.helpers import a_record, write_log

NAME = "silver/events"
DAY = {"event_date": "2026-01-05"}
APP = transaction_id(NAME, DAY, 0)


@pytest.fixture
def events(tmp_path):
    """``events({...}, ...)``: appends these commits to a table partitioned by day, and gives its ledger."""

    def written(*commits):
        write_log(tmp_path / "events", {"id": "long", "event_date": "date"}, ["event_date"], list(commits))
        return Ledger(tmp_path / "events", name=NAME)

    return written


def record(partition=DAY, **fields):
    return a_record(NAME, partition, **{"sequence": 5, **fields})


def commit(partition=DAY, **fields):
    written = record(partition, **fields)
    return {"changed": [partition], "record": written, "txn": {transaction_id(NAME, partition, 0): written.sequence}}


def decide(ledger, wanted, **options):
    return idempotency.decide(ledger, ledger.state(), wanted, **options)


def test_the_first_write_of_a_partition_is_new(events):
    """It gets the upstream version as its transaction version, or 1 where no version is given."""
    ledger = events({"changed": [{"event_date": "2026-01-06"}]})
    assert decide(ledger, record()) == idempotency.Decision(APP, 5)
    assert decide(ledger, record(sequence=None)).sequence == 1


def test_the_same_write_again_is_found_in_the_ledger(events):
    """Whoever runs it: same inputs, same code, same rows are the write that was applied."""
    ledger = events(commit(inputs={"bronze": 7}), {"changed": [{"event_date": "2026-01-06"}]})
    assert decide(ledger, record(inputs={"bronze": 7}, run_id="run-2")).applied.version == 1


def test_inputs_alone_identify_a_write_without_a_sequence(events):
    """A write with neither inputs nor sequence cannot be told from a new one, so it is new."""
    ledger = events(commit(inputs={"bronze": 7}))
    assert decide(ledger, record(sequence=None, inputs={"bronze": 7})).applied.version == 1
    blank = events(commit(sequence=6))
    assert decide(blank, record(sequence=None)).applied is None


@pytest.mark.parametrize("value", ['5" pipe', "back\\slash", "O'Hare", "a b/c%"])
def test_a_retry_is_found_whatever_letters_its_partition_has(tmp_path, value):
    """Exactly once holds for every partition value."""
    write_log(tmp_path, {"id": "long", "city": "string"}, ["city"], [commit({"city": value})])
    assert decide(Ledger(tmp_path, name=NAME), record({"city": value})).applied is not None


def test_the_same_write_with_other_rows_is_refused_with_both_digests(events):
    """Something the inputs do not name has changed, and that has to be seen."""
    ledger = events(commit(fingerprint="3 rows 1"))
    with pytest.raises(TransactionReused, match=r"came back with other rows \(3 rows 1 then, 4 rows 2 now\)"):
        decide(ledger, record(fingerprint="4 rows 2"))


def test_an_overtaken_run_is_stale(events):
    """A run that read an older upstream version must not put its rows over newer ones."""
    ledger = events(commit(sequence=7))
    with pytest.raises(Conflict, match="already applied upstream version 7, this run read version 5 and is stale"):
        decide(ledger, record())


def test_a_write_without_a_sequence_counts_its_runs_apart(events):
    """It takes the next number of a cursor of its own, and uses up no upstream version."""
    runs = transaction_id(NAME, DAY, 0, "runs")
    ledger = events(commit(sequence=7), {"changed": [DAY], "txn": {runs: 3}})
    decision = decide(ledger, record(sequence=None))
    assert (decision.app_id, decision.sequence) == (runs, 4)
    assert decide(ledger, record(sequence=8)).app_id == APP


@pytest.mark.promise("a-deliberate-replay-has-a")
@pytest.mark.parametrize("changed", [{"code_version": "2"}, {"inputs": {"bronze": 8}}])
def test_a_deliberate_replay_has_a_transaction_of_its_own(events, changed):
    """Other code or other inputs at the same upstream version are not a retry; equal rows are noticed."""
    ledger = events(commit())
    decision = decide(ledger, record(**changed))
    assert decision.app_id == f"{APP}/{changed.get('code_version', '1')}"
    assert (decision.applied, decision.same_rows, decision.rewrite) == (None, True, True)
    assert not decide(ledger, record(**changed, fingerprint="other")).same_rows


@pytest.mark.parametrize("version", [5, 0])
def test_each_replay_at_one_upstream_version_can_be_told_from_the_one_before(events, version):
    """Delta drops a transaction id and version it has seen, so a third replay needs a new pair."""
    again = f"{APP}/1"
    first, second = (commit(inputs={"x": number}, sequence=version) for number in (1, 2))
    decision = decide(events(first, {**second, "txn": {again: version}}), record(inputs={"x": 3}, sequence=version))
    assert (decision.app_id, decision.sequence) != (again, version)


def test_equal_rows_do_not_count_where_somebody_else_wrote_since(events):
    """After a foreign commit the partition no longer holds what our last record says."""
    assert decide(events(commit()), record(code_version="2")).same_rows
    assert not decide(events({"changed": [DAY]}), record(code_version="2")).same_rows


def appended(**fields):
    written = record({}, **fields)
    return {"changed": [DAY], "record": written, "txn": {transaction_id(NAME, {}, 0, "appends"): written.sequence}}


def test_an_append_under_an_applied_sequence_is_never_new(events):
    """The same rows are a retry, other rows are refused; they would be there twice."""
    ledger = events(appended(fingerprint="2 rows 1"))
    assert decide(ledger, record({}, fingerprint="2 rows 1"), append=True).applied.version == 1
    with pytest.raises(TransactionReused):
        decide(ledger, record({}, fingerprint="2 rows 9"), append=True)
    with pytest.raises(TransactionReused, match="with other rows"):
        decide(ledger, record({}, code_version="2"), append=True)


def test_a_retried_append_is_recognised_after_other_writes(events):
    """An append that is in the table is applied, whatever was written to one of its partitions since."""
    ledger = events(appended(), commit(sequence=9))
    assert decide(ledger, record({}), append=True).applied.version == 1


def test_an_append_reads_back_no_further_than_to_where_it_would_be(events, monkeypatch):
    """Nothing for a new version, the newer ones for a retry: however long the log is."""
    numbers = (3, 5, 7, 9)
    ledger = events(*(appended(sequence=n) for n in numbers), *({"changed": [DAY]} for _ in range(3)))
    parsed, real = [], ledger.states.commit
    monkeypatch.setattr(
        ledger.states, "commit", lambda version, *rest: (parsed.append(version), real(version, *rest))[1]
    )
    read = {}
    for sequence in (10, 9, 7):
        parsed.clear()
        decision = decide(ledger, record({}, sequence=sequence), append=True)
        read[sequence] = (decision.applied and decision.applied.version, [*parsed])
    assert read == {10: (None, []), 9: (4, [4]), 7: (3, [4, 3])}
    parsed.clear()
    with pytest.raises(Conflict, match="already applied upstream version 9"):
        decide(ledger, record({}, sequence=6), append=True)
    assert parsed == [4, 3, 2]


def test_after_a_restore_everything_may_be_applied_again(events):
    """The generation is part of the transaction id, and moving it changes no row."""
    ledger = events(commit(sequence=7))
    file_exchange.raise_generation(ledger)
    decision = decide(ledger, record())
    assert (decision.app_id, decision.applied) == (transaction_id(NAME, DAY, 1), None)
    file_exchange.raise_generation(ledger)
    assert ledger.transaction(generation_id(NAME)) == 2
    assert ledger.changes(since=1) == (3, {})


def test_a_commit_with_transaction_and_record_replaces_just_its_partition(events):
    """Old files out, transaction and record in, the neighbours untouched, all in one version."""
    neighbour = {"event_date": "2026-01-06"}
    ledger = events({"changed": [DAY, neighbour]})
    state, wanted = ledger.state(), record().stored()
    stage_commit.commit_files(state, empty_stage(ledger.store), wanted, decide(ledger, wanted), Meter())
    assert set(ledger.state().statistics()) == {tuple(neighbour.items())}
    assert (ledger.version(), ledger.commit(2).record, ledger.state().transaction(APP)) == (2, wanted, 5)


def test_a_commit_that_lost_the_race_is_a_conflict(events):
    """The partition changed between decision and commit, so nothing is replaced blindly."""
    ledger = events({"changed": [DAY]})
    state, wanted = ledger.state(), record()
    decision = decide(ledger, wanted)
    events({"changed": [DAY]})
    with pytest.raises(Conflict, match="another writer changed the table first"):
        stage_commit.commit_files(state, empty_stage(ledger.store), wanted, decision, Meter())
    assert ledger.version() == 2


def test_an_equal_rewrite_commits_no_file(events):
    """Record and transaction move on, the rows stay, nobody downstream sees a change."""
    ledger = events(commit())
    wanted = record(code_version="2").stored()
    stage_commit.commit_files(ledger.state(), empty_stage(ledger.store), wanted, decide(ledger, wanted), Meter())
    assert (ledger.changes(since=1), ledger.latest(DAY).record) == ((2, {}), wanted)


@pytest.mark.parametrize(
    ("error", "conflict"),
    [
        (Conflict("another writer"), True),
        (PySparkException("[DELTA_CONCURRENT_APPEND] files were added"), True),
        (PySparkException("[DELTA_METADATA_CHANGED] the metadata has changed"), True),
        (PySparkException("io.delta.exceptions.ConcurrentAppendException: files were added"), True),
        (PySparkException("org.apache.hadoop.fs.FileAlreadyExistsException: 3.json"), True),
        (PySparkException("[UNRESOLVED_COLUMN] x"), False),
        (NotReady("no table"), False),
        (ValueError("ConcurrentAppendException"), False),
    ],
)
def test_only_a_commit_lost_to_another_writer_is_retried(error, conflict):
    """By text, because Spark Connect has other classes; anything else is raised at once."""
    assert spark_writer.is_conflict(error) is conflict


@pytest.mark.parametrize(
    ("mapped", "features", "served"),
    [
        (False, set(), True),
        (False, {"appendOnly", "invariants", "checkConstraints"}, True),
        (True, {"columnMapping"}, False),
        (False, {"columnMapping"}, False),
        (False, {"rowTracking", "domainMetadata"}, False),
        (False, {"identityColumns"}, False),
        (False, {"somethingNew"}, False),
    ],
)
def test_tables_with_unknown_needs_are_left_to_sparks_writer(mapped, features, served):
    """What the metadata-only commit does not understand it does not touch."""
    assert (
        file_exchange.serves(SimpleNamespace(mapped=mapped, identities={}, marked={}, features=frozenset(features)))
        is served
    )
