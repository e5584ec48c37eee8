"""Two gates around a write: what is refused is never seen, and what is let through nevertheless carries a name."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import date

import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.connectors.encoding.formats import Csv
from dedp_assets.patterns.connectors.landing.file_audits import FileAudit, audit_files
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, SchemaMismatch
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.rows import RowsRead
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.delta.staging.stages import Stage
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish, require_pass, usual
from tests.contracts.known_calls import known_calls
from tests.helpers import EVENTS, a_record, a_run, active_files, read_back, write_log
from tests.two_runs import two_runs

DAY, NEXT = {"event_date": "2026-01-05"}, {"event_date": "2026-01-06"}
USERS = Audit.none_where("every_event_has_a_user", "user_id IS NULL")
VOLUME = Audit(name="volume_is_usual", of="written", per="usual", fail_below=0.5, approvable=True)
AUDITS = (USERS, VOLUME)
MIXED = {"volume_is_usual": "fail", "every_event_has_a_user": "quarantine"}
APPROVAL = Approval(by="Ada", because="the shop was closed")


@pytest.fixture
def events(make_table):
    """The published events, without the constraint that takes a second to add."""
    return make_table(replace(EVENTS, checks={}))


@pytest.fixture
def suspects(make_table):
    """The quarantine of the events."""
    return make_table(replace(EVENTS, name="silver/events_quarantine", checks={}))


@pytest.fixture
def batch(event_rows):
    """``batch(10, nameless=2)``: as many events, the first two of them without their user."""

    def rows(count, *, nameless=0, day=DAY["event_date"], start=0):
        user = f"if(id < {start + nameless}, NULL, user_id) AS user_id"
        return event_rows(count, day=day, start=start).selectExpr("id", user, "amount", "event_date")

    return rows


@pytest.fixture
def publish(events, batch):
    """Publish a batch of one day under both audits; usual are ten events."""

    def published(
        rows,
        *,
        partition=DAY,
        quarantine=None,
        respond="fail",
        responses=None,
        usually=10,
        findings=(),
        allow_empty=False,
        **fields,
    ):
        return audit_write_audit_publish(
            rows,
            events.target(
                a_run(**fields),
                partition=partition,
                audits=AUDITS,
                rows_read=RowsRead(figures={"usual": usually}, findings=tuple(findings)),
            ),
            quarantine and quarantine.target(a_run(**fields), partition=partition),
            on_failure=respond,
            responses=responses or {},
            allow_empty=allow_empty,
        )

    return published


@pytest.fixture
def log(tmp_path):
    """``log(commit, ...)``: the ledger of a table whose commits are written by hand."""

    def written(*commits):
        write_log(tmp_path / "silver", {"id": "long", "event_date": "date"}, ["event_date"], list(commits))
        return Ledger(tmp_path / "silver", name="silver/events")

    return written


def ids(table):
    """The ids in a table, through an independent reader."""
    return sorted(row["id"] for row in read_back(table))


def stages(table):
    """Folders of rows beside or in the table."""
    return {path.name for path in table.location.glob("staged-*")}


def judged(name="every_event_has_a_user", *, passed=True, severity="fail"):
    """One finding, as the ledger holds it."""
    return Finding(name, passed=passed, severity=severity).as_dict()


def commit(partition=DAY, **fields):
    """A commit to one day with its record."""
    return {"changed": [partition], "record": a_record("silver/events", partition, **fields)}


# --- the gate before the computation


@pytest.mark.parametrize(
    "broken",
    [
        Audit(name="file_is_big_enough", of="bytes", fail_below=100).judge({"bytes": 3}),
        Finding("file_is_json", passed=False, note="it starts with PK"),
    ],
    ids=lambda finding: finding.name,
)
def test_a_refused_input_computes_nothing(events, batch, publish, broken):
    """Rows that would fail if anybody computed them are not computed: no stage, no table, no version."""
    explosive = batch(3).selectExpr("id", "string(raise_error('computed')) AS user_id", "amount", "event_date")
    with pytest.raises(AuditFailed, match=f"nothing computed, the input was refused. {broken.name}") as refused:
        publish(explosive, findings=[broken])
    assert refused.value.findings == (broken,)
    assert refused.value.stage is None
    assert not events.location.exists()


def test_landed_files_with_faults_compute_nothing(events, batch, publish, tmp_path):
    """All that is wrong with the files is named at once, and no row of theirs is staged."""
    for name, data in {"a.csv": b"id,amount\n1,2", "b.csv": b"\x1f\x8bcut", "c.csv": b""}.items():
        (tmp_path / name).write_bytes(data)
    rules = FileAudit(format=Csv(), columns=["user_id"], min_bytes=10)
    findings = audit_files(sorted(tmp_path.glob("*.csv")), rules, announced={"a.csv": 2})
    explosive = batch(3).selectExpr("id", "string(raise_error('computed')) AS user_id", "amount", "event_date")
    with pytest.raises(AuditFailed, match="nothing computed") as refused:
        publish(explosive, findings=findings)
    for fault in ("c.csv has 0 bytes", "b.csv holds gzip", "a.csv has no column user_id", "a.csv has 1 of 2 announced"):
        assert fault in str(refused.value)
    assert not events.location.exists()


def test_a_missing_column_is_refused_before_anything_is_staged(events, batch, publish):
    """Input of another shape stops at the schema, and the published rows stay."""
    publish(batch(10))
    before = (ids(events), events.ledger.version(), stages(events))
    with pytest.raises(SchemaMismatch, match=r"missing columns \['user_id'\]"):
        publish(batch(10).drop("user_id"))
    assert (ids(events), events.ledger.version(), stages(events)) == before


def test_a_warning_about_the_input_stops_nothing_and_is_kept(events, batch, publish):
    """The commit that publishes says what was known about its input."""
    late = Finding("delivery_was_on_time", passed=False, severity="warn")
    result = publish(batch(10), findings=[late])
    assert late in result.findings
    assert events.ledger.commit(result.version).record.notes["input"] == [late.as_dict()]
    assert ids(events) == list(range(10))


def test_an_approved_input_is_published_under_the_approver(events, batch, publish):
    """A false positive of the first gate is overruled by name, and the verdict tells it from rows that passed."""
    odd = Finding("delivery_is_big_enough", passed=False, approvable=True)
    with pytest.raises(AuditFailed, match="nothing computed"):
        publish(batch(10), findings=[odd])
    result = publish(batch(10), findings=[odd], approval=APPROVAL)
    record = events.ledger.commit(result.version).record
    assert record.approval == {"by": "Ada", "because": "the shop was closed"}
    assert [f["approved_by"] for f in record.notes["input"]] == ["Ada"]
    assert ids(events) == list(range(10))
    assert record.verdict == "approved"


# --- the gate before the publication


@pytest.mark.both
def test_a_refused_result_stays_readable_and_unpublished(spark, events, batch, publish):
    """A bug that loses users is stopped: the wrong rows can be looked at, readers keep the former ones."""
    publish(batch(10))
    before = (ids(events), events.ledger.version(), active_files(events))
    with pytest.raises(AuditFailed, match="every_event_has_a_user: above 0") as refused:
        publish(batch(12, nameless=2, start=20))
    assert (ids(events), events.ledger.version(), active_files(events)) == before
    staged = spark.read.format("delta").load(refused.value.stage).select("id", "user_id").collect()
    assert {row["id"]: row["user_id"] for row in staged} == {n: None if n < 22 else f"u{n}" for n in range(20, 32)}
    assert {f.name for f in refused.value.findings if f.refuses} == {"every_event_has_a_user"}


def test_every_failed_audit_is_named_at_once(batch, publish):
    """One attempt tells all that is wrong, the findings on the input included."""
    known = Finding("upstream_passed", passed=True)
    with pytest.raises(AuditFailed, match=r"every_event_has_a_user: .*; volume_is_usual: ") as refused:
        publish(batch(4, nameless=1), findings=[known])
    assert {f.name for f in refused.value.findings if f.refuses} == {"every_event_has_a_user", "volume_is_usual"}
    assert known in refused.value.findings


def test_half_the_usual_volume_fails(events, batch, publish):
    """By default a refused partition publishes nothing; exactly half is still let through."""
    publish(batch(10))
    with pytest.raises(AuditFailed, match=r"volume_is_usual: below 0.5 \(written=4, usual=10, ratio=0.4\)"):
        publish(batch(4, start=50))
    assert ids(events) == list(range(10))
    publish(batch(5, start=50))
    assert ids(events) == list(range(50, 55))


def test_a_failing_window_loses_no_rows_and_stops_no_other(spark, events, batch, publish):
    """Windows before and after a refused one are published, and its rows wait in their stage for the repair."""
    publish(batch(10))
    with pytest.raises(AuditFailed) as refused:
        publish(batch(10, nameless=3, day="2026-01-06", start=10), partition=NEXT)
    publish(batch(10, day="2026-01-07", start=20), partition={"event_date": "2026-01-07"})
    assert ids(events) == [*range(10), *range(20, 30)]
    waiting = spark.read.format("delta").load(refused.value.stage)
    repaired = waiting.selectExpr("id", "coalesce(user_id, 'unknown') AS user_id", "amount", "event_date")
    publish(repaired, partition=NEXT)
    assert ids(events) == list(range(30))


@pytest.mark.parametrize("respond", ["fail", "annotate", "quarantine"])
def test_what_the_gate_adds_to_a_windows_latency_is_measured(events, suspects, batch, publish, monkeypatch, respond):
    """From the last file of the window's rows to the commit that showed them, by the log; a slow gate shows."""
    commit_files = stage_commit.commit_files

    def slow(*args, **options):
        time.sleep(0.3)
        commit_files(*args, **options)

    monkeypatch.setattr(stage_commit, "commit_files", slow)
    aside = {"quarantine": suspects} if respond == "quarantine" else {}
    result = publish(batch(10, nameless=0 if respond == "fail" else 2), respond=respond, **aside)
    log = events.location / "_delta_log" / f"{result.version:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    (shown,) = [action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action]
    written = max(action["add"]["modificationTime"] for action in actions if "add" in action)
    assert result.figures["held_seconds"] == events.ledger.commit(result.version).record.cost.held_seconds
    assert 0.3 <= result.figures["held_seconds"] <= (shown - written) / 1000 + 0.001


def test_a_failing_micro_batch_of_a_stream_is_not_lost(spark, events, suspects, batch, publish, tmp_path):
    """The stream stops at the micro-batch, shows nothing of it, and begins with it again; later ones come after."""
    days = ["2026-01-05", "2026-01-06", "2026-01-07"]
    for number, day in enumerate(days):
        rows = batch(10, day=day, start=10 * number, nameless=2 * (number == 1))
        rows.coalesce(1).write.mode("append").parquet(str(tmp_path / "source"))
    published = []

    def run(**answer):
        def window(micro_batch, number):
            day = {"event_date": days[number]}
            published.append(publish(micro_batch, partition=day, inputs={"batch": number}, **answer))

        stream = spark.readStream.schema(batch(1).schema).option("maxFilesPerTrigger", 1)
        writer = stream.parquet(str(tmp_path / "source")).writeStream.foreachBatch(window)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="every_event_has_a_user"):
        run()
    assert ids(events) == list(range(10))
    run(responses=MIXED, quarantine=suspects)
    assert (ids(events), ids(suspects)) == ([*range(10), *range(12, 30)], [10, 11])
    assert [result.figures["held_seconds"] >= 0 for result in published] == [True] * 3


# --- the other two responses


def test_annotate_publishes_with_a_warning(events, batch, publish):
    """All rows are published, and both the result and the commit say which audits they failed."""
    result = publish(batch(4, nameless=1), respond="annotate")
    assert ids(events) == [0, 1, 2, 3]
    record = events.ledger.commit(result.version).record
    assert record.verdict == "warned"
    assert {f["name"] for f in record.findings if not f["passed"]} == {"every_event_has_a_user", "volume_is_usual"}
    assert {(f.name, f.severity) for f in result.findings if not f.passed} == {
        ("every_event_has_a_user", "warn"),
        ("volume_is_usual", "warn"),
    }


@pytest.mark.both
def test_quarantine_publishes_the_good_rows_and_keeps_the_others_aside(events, suspects, batch, publish):
    """Every input row is in exactly one of the two tables, and the commits say why."""
    result = publish(batch(10, nameless=2), quarantine=suspects, respond="quarantine")
    assert (result.applied, result.rows.written) == (True, 8)
    assert ids(events) == list(range(2, 10))
    assert ids(suspects) == [0, 1]
    for table in (events, suspects):
        record = table.ledger.latest(DAY).record
        assert record.notes["quarantined_for"] == ["every_event_has_a_user"]
        assert record.run_id == "run-1"


def test_each_audit_may_have_a_response_of_its_own(events, suspects, batch, publish):
    """Within one write: rows at fault go aside, a small volume only marks the rows, or stops all of them."""
    annotated = {"volume_is_usual": "annotate"}
    result = publish(batch(4, nameless=1), quarantine=suspects, respond="quarantine", responses=annotated)
    assert (ids(events), ids(suspects)) == ([1, 2, 3], [0])
    assert {f.name: f.severity for f in result.findings if not f.passed} == {
        "every_event_has_a_user": "fail",
        "volume_is_usual": "warn",
    }
    with pytest.raises(AuditFailed, match="volume_is_usual"):
        publish(batch(3, nameless=1, start=50), quarantine=suspects, responses=MIXED, inputs={"bronze": 2})
    assert (ids(events), ids(suspects)) == ([1, 2, 3], [0])


def test_a_response_of_no_audit_is_refused(events, suspects, batch, publish):
    """A misspelt audit would go on with the response of all others; a quarantine without a table has no rows' place."""
    with pytest.raises(ConfigError, match="responses must be of audits of silver/events, not volume"):
        publish(batch(10), responses={"volume": "annotate"})
    with pytest.raises(ConfigError, match="a quarantine table goes with quarantine"):
        publish(batch(10), responses=MIXED)
    with pytest.raises(ConfigError, match="responses must be"):
        publish(batch(10), responses={"volume_is_usual": "ignore"})
    assert not events.ledger.exists()
    assert not suspects.ledger.exists()


def test_a_batch_without_faults_leaves_the_quarantine_alone(events, suspects, batch, publish):
    """The response is for failures only."""
    publish(batch(10), quarantine=suspects, respond="quarantine")
    assert ids(events) == list(range(10))
    assert not suspects.ledger.exists()


def test_a_rerun_replaces_what_was_put_aside_of_its_partition(events, suspects, batch, publish):
    """Repaired rows leave the quarantine, all of them in the end; those of another day stay in it."""
    publish(
        batch(10, nameless=1, day="2026-01-06", start=20), partition=NEXT, quarantine=suspects, respond="quarantine"
    )
    for repaired, inputs in ((0, {"bronze": 1}), (2, {"bronze": 2}), (3, {"bronze": 3})):
        rows = batch(10, nameless=3 - repaired)
        assert publish(rows, quarantine=suspects, respond="quarantine", inputs=inputs).changed
        assert ids(suspects) == [*range(3 - repaired), 20]
        assert ids(events) == [*range(3 - repaired, 10), *range(21, 30)]
    version = suspects.ledger.version()
    publish(batch(10, start=40), quarantine=suspects, respond="quarantine")
    assert suspects.ledger.version() == version


def test_a_failure_that_names_no_rows_sends_the_whole_batch_aside(events, suspects, batch, publish):
    """Half the volume says nothing about which rows are wrong: none is published, the former ones stay."""
    publish(batch(10, start=20))
    version = events.ledger.version()
    for count, nameless in ((4, 0), (3, 1)):
        result = publish(batch(count, nameless=nameless), quarantine=suspects, respond="quarantine")
        assert (result.applied, result.changed, result.version) == (False, False, version)
        assert "the whole batch went to silver/events_quarantine: " in result.reason
        assert ids(events) == list(range(20, 30))
        assert ids(suspects) == list(range(count))


def test_rows_that_all_have_a_fault_go_aside_and_empty_nothing(events, suspects, batch, publish):
    """Nothing is left to publish in place of the former rows, unless the caller says that nothing is right."""
    publish(batch(10, start=20), usually=0)
    version = events.ledger.version()
    result = publish(batch(3, nameless=3), quarantine=suspects, respond="quarantine", usually=0)
    assert (result.applied, events.ledger.version()) == (False, version)
    assert "the whole batch went to silver/events_quarantine: " in result.reason
    assert (ids(events), ids(suspects)) == (list(range(20, 30)), [0, 1, 2])
    options = {"inputs": {"bronze": 2}, "usually": 0, "allow_empty": True}
    assert publish(batch(3, nameless=3), quarantine=suspects, respond="quarantine", **options).changed
    assert (ids(events), ids(suspects)) == ([], [0, 1, 2])


def test_no_rows_empty_a_partition_only_where_they_may(events, suspects, batch, publish):
    """The rule of a plain overwrite; nothing at all is no fault of a row, so that nothing goes aside."""
    publish(batch(3), usually=3)
    for respond, aside in (("fail", None), ("quarantine", suspects)):
        with pytest.raises(AuditFailed, match=r"input_is_not_empty: below 1 \(written=0\)"):
            publish(batch(0), respond=respond, quarantine=aside, usually=0, inputs={"bronze": 2})
    assert (ids(events), suspects.ledger.exists()) == ([0, 1, 2], False)
    publish(batch(0), usually=0, allow_empty=True, inputs={"bronze": 3})
    assert ids(events) == []


def test_a_dispatch_reports_every_audit_with_its_figures(events, suspects, batch, publish):
    """The result holds the findings on the input and the failed audit, and the others still know the baseline."""
    known = Finding("upstream_passed", passed=True)
    result = publish(batch(10, nameless=2), quarantine=suspects, respond="quarantine", findings=[known])
    recorded = {f["name"]: f["figures"] for f in events.ledger.latest(DAY).record.findings}
    assert recorded["volume_is_usual"] == {"written": 8, "usual": 10, "ratio": 0.8}
    assert {"upstream_passed", "every_event_has_a_user", "volume_is_usual"} <= {f.name for f in result.findings}


def test_a_dispatch_that_dies_between_its_two_commits_loses_no_row(events, suspects, batch, publish, monkeypatch):
    """The bad rows are put aside first; the rerun publishes the good ones, and nothing is put aside twice."""
    publish(batch(10, start=20), inputs={"bronze": 6})
    commit_files, calls = stage_commit.commit_files, []

    def dispatch():
        return publish(batch(10, nameless=2), quarantine=suspects, respond="quarantine", inputs={"bronze": 7})

    def die_at_the_second(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise SystemExit("killed")
        commit_files(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(stage_commit, "commit_files", die_at_the_second)
        with pytest.raises(SystemExit):
            dispatch()
    assert (ids(events), ids(suspects)) == (list(range(20, 30)), [0, 1])
    aside = suspects.ledger.version()
    assert dispatch().applied
    assert (ids(events), ids(suspects)) == (list(range(2, 10)), [0, 1])
    published = events.ledger.version()
    assert not dispatch().applied
    assert (ids(events), ids(suspects)) == (list(range(2, 10)), [0, 1])
    assert (events.ledger.version(), suspects.ledger.version()) == (published, aside)


@pytest.mark.parametrize("respond", ["annotate", "quarantine"])
def test_constraints_of_the_table_yield_to_no_response(events, suspects, batch, publish, respond):
    """A warning or a quarantine answers the caller's audits: what the table forbids stays out of it."""
    rows = batch(10).selectExpr("nullif(id, 7L) AS id", "user_id", "amount", "event_date")
    with pytest.raises(AuditFailed, match="constraints_hold"):
        publish(rows, quarantine=suspects if respond == "quarantine" else None, respond=respond)
    assert ids(events) == []
    assert not suspects.ledger.exists()


# --- publishing


def test_a_publication_that_dies_after_its_commit_happens_once(events, batch, publish, monkeypatch):
    """Between the swap and the cleanup the rows are published already; the rerun only says so."""

    def die(_):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Stage, "finish", die)
        with pytest.raises(SystemExit):
            publish(batch(10), inputs={"bronze": 7})
    version = events.ledger.version()
    rerun = publish(batch(10), inputs={"bronze": 7})
    assert (rerun.applied, rerun.version, events.ledger.version()) == (False, version, version)
    assert ids(events) == list(range(10))


def test_a_named_person_may_approve_a_false_positive(events, batch, publish):
    """The same rows and the same code get in under a name, which result and commit carry."""
    with pytest.raises(AuditFailed, match="volume_is_usual"):
        publish(batch(4), inputs={"bronze": 7})
    result = publish(batch(4), inputs={"bronze": 7}, approval=APPROVAL)
    record = events.ledger.commit(result.version).record
    assert (record.verdict, record.approval) == ("approved", {"by": "Ada", "because": "the shop was closed"})
    assert {f.name for f in result.findings if f.approved_by == "Ada"} == {"volume_is_usual"}
    assert {f["name"] for f in record.findings if f["approved_by"]} == {"volume_is_usual"}
    assert ids(events) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("nameless", "approval", "refused_by"),
    [
        (1, APPROVAL, "every_event_has_a_user"),
        (0, replace(APPROVAL, audits=("another_audit",)), "volume_is_usual"),
    ],
    ids=["not approvable", "not named"],
)
def test_an_approval_opens_only_what_it_covers(events, batch, publish, nameless, approval, refused_by):
    """Missing users cannot be approved, and an approval of one audit is none of another."""
    with pytest.raises(AuditFailed, match=refused_by) as refused:
        publish(batch(4, nameless=nameless), approval=approval)
    assert {f.name for f in refused.value.findings if f.refuses} == {refused_by}
    assert ids(events) == []


@pytest.mark.parametrize("fields", [{"by": " ", "because": "why"}, {"by": "Ada", "because": ""}])
def test_an_approval_without_a_name_or_a_reason_is_none(fields):
    """Nobody approves anonymously or without saying why."""
    with pytest.raises(ConfigError, match="an approval needs the name"):
        Approval(**fields)


@pytest.mark.parametrize(
    ("respond", "with_table"), [("quarantine", False), ("fail", True), ("annotate", True), ("ignore", False)]
)
def test_a_quarantine_goes_with_its_response_and_no_other(events, suspects, batch, publish, respond, with_table):
    """A response that cannot be carried out is an error of the call."""
    said = "on_failure must be fail, quarantine or annotate" if respond == "ignore" else "a quarantine table goes with"
    with pytest.raises(ConfigError, match=said):
        publish(batch(10), quarantine=suspects if with_table else None, respond=respond)
    assert not events.ledger.exists()


# --- the verdict of an upstream table; no engine is needed to ask for it


def test_rows_that_passed_their_audits_pass(log):
    """The finding names the version whose verdict it is, which is the one to read."""
    ledger = log(commit(findings=(judged(),)))
    finding = require_pass(ledger, DAY, version=1, audits=["every_event_has_a_user"])
    assert (finding.passed, finding.note) == (True, "")
    assert finding.figures == {"version": 1, "verdict": "passed"}


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        (
            commit(verdict="none", findings=(judged(),)),
            "version 2 of silver/events event_date=2026-01-05 was written without an audit",
        ),
        ({"changed": [DAY]}, "version 2 of silver/events event_date=2026-01-05 was written without an audit"),
        (commit(findings=()), r"not judged: ['every_event_has_a_user']; failed: []"),
        (commit(findings=(judged(passed=False),)), r"not judged: []; failed: ['every_event_has_a_user']"),
    ],
    ids=["no verdict", "foreign code", "audit did not run", "audit failed"],
)
def test_no_explicit_pass_is_no_pass(log, newest, words):
    """What was published before with a pass does not help the rows that replaced it, and nobody can approve it."""
    ledger = log(commit(findings=(judged(),)), newest)
    finding = require_pass(ledger, DAY, version=2, audits=["every_event_has_a_user"])
    assert finding.refuses
    assert finding.note.endswith(words)
    assert not finding.approvable
    assert require_pass(ledger, DAY, version=1, audits=["every_event_has_a_user"]).passed


@pytest.mark.parametrize("verdict", ["warned", "approved"])
def test_published_exceptions_pass(log, verdict):
    """A warning or an approval is an explicit verdict, and the finding says which."""
    ledger = log(commit(verdict=verdict, findings=(judged(passed=False, severity="warn"),)))
    finding = require_pass(ledger, DAY, version=1, audits=["every_event_has_a_user"])
    assert (finding.passed, finding.figures["verdict"]) == (True, verdict)


@pytest.mark.parametrize("cleaned", [False, True], ids=["never written", "log cleaned up"])
def test_rows_that_nobody_can_vouch_for_do_not_pass(log, cleaned):
    """A partition the log knows nothing about is refused, whatever its neighbours are."""
    ledger = log(commit(DAY), commit(NEXT))
    if cleaned:
        DeltaTable(str(ledger.location)).create_checkpoint()
        for version in (0, 1):
            (ledger.location / "_delta_log" / f"{version:020d}.json").unlink()
    day = DAY if cleaned else {"event_date": "2026-01-09"}
    finding = require_pass(ledger, day, version=2)
    assert finding.refuses
    assert finding.note.endswith("was never written, or its log no longer says how")
    assert finding.figures == {"version": None, "verdict": None}


def test_a_compaction_takes_no_verdict_away(log):
    """A foreign commit that changes no row is not the newest change."""
    ledger = log(commit(findings=(judged(),)), {"changed": [DAY], "data_change": False})
    assert require_pass(ledger, DAY, version=2, audits=["every_event_has_a_user"]).passed


@pytest.mark.parametrize("older", [[], [{"changed": [DAY]}]], ids=["never written", "foreign code"])
def test_of_several_partitions_each_has_to_pass(log, older):
    """The verdict on the one that was written last says nothing about the others."""
    ledger = log(*older, commit(NEXT))
    assert require_pass(ledger, NEXT, version=len(older) + 1).passed
    assert not require_pass(ledger, DAY, NEXT, version=len(older) + 1).passed


# --- what is usual


def views(day, number, **fields):
    """A commit to one day with its figure."""
    return commit({"event_date": f"2026-01-{day:02}"}, figures={"views": number}, **fields)


def test_a_rebuilt_partition_is_compared_with_its_own_history(log):
    """A backfill is judged by what this partition last published, and not by what is usual today."""
    ledger = log(views(5, 90), views(5, 100), views(6, 500), views(7, 900))
    assert usual(ledger, DAY, figure="views") == 100
    assert usual(ledger, {"EVENT_DATE": date(2026, 1, 5)}, figure="views") == 100


def test_a_new_partition_is_compared_with_the_median_of_earlier_ones(log):
    """Later partitions do not count, each earlier one counts once with its last value, and only the last few do."""
    ledger = log(views(1, 1), views(2, 10), views(3, 20), views(4, 30), views(3, 70), views(9, 9000))
    assert usual(ledger, DAY, figure="views", days=3) == 30
    assert usual(ledger, DAY, figure="views", days=2) == 50
    assert usual(ledger, DAY, figure="views") == 20


def test_what_was_published_of_a_day_that_was_not_over_is_no_measure(log):
    """Neither of that day once it is over, nor of another one."""
    half = {"notes": {"open": True}}
    assert usual(log(views(4, 40), views(5, 3, **half)), DAY, figure="views") == 40
    assert usual(log(views(5, 50), views(5, 60, **half)), DAY, figure="views") == 50
    assert usual(log(views(6, 2, **half)), {"event_date": "2026-01-07"}, figure="views") == 45


@pytest.mark.parametrize(
    "history",
    [[], [views(4, 10, verdict="none")], [views(6, 10)], [commit(NEXT), {"changed": [DAY]}], [views(4, None)]],
    ids=["no history", "no verdict", "only later days", "no figure", "figure is null"],
)
def test_without_history_nothing_is_usual(log, history):
    """Rows that were never vouched for are no baseline, and the audit that asks for one says so and passes."""
    baseline = usual(log(*history), DAY, figure="views")
    assert baseline is None
    finding = Audit(name="volume", of="views", per="usual", fail_below=0.5).judge({"views": 1, "usual": baseline})
    assert (finding.passed, finding.note) == (True, "no usual to compare with")


def test_a_table_that_does_not_exist_has_nothing_usual(tmp_path):
    """The very first run may ask too."""
    assert usual(Ledger(tmp_path / "gold"), DAY, figure="views") is None


@known_calls
def calls_that_work(known):
    ledger, monday = known.daily.ledger, {"day": "mon"}
    return {
        "require_pass": {"upstream": ledger, "partitions": ({},), "version": 1, "audits": ["sound"]},
        "usual": {"ledger": ledger, "figure": "visits", "partition": monday, "days": 7},
    }


@two_runs()
@two_runs(second="bad")
def quarantined_at_once(world, *, second="good"):
    """Rows at fault are put aside into another table; those of one run belong to its others."""
    columns = "id INT, day STRING"
    for name in ("judged", "aside"):
        world.table(name, columns, by=["day"])
    audits = [Audit.none_where("ids_are_small", "id > 9")]

    def write(w, name, *ids):
        rows = w.frame(columns, *[(n, "mon") for n in ids])
        target, aside = w.into("judged", name, "mon", audits=audits), w.into("aside", name, "mon")
        audit_write_audit_publish(rows, target, aside, on_failure="quarantine")

    write(world, "base", 1, 10)
    yield lambda w: write(w, "1", 2, *([] if second == "bad" else [20]))
    yield lambda w: write(w, "2", 3, *([30] if second == "bad" else []))
