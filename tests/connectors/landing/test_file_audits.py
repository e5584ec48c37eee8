"""Audits of landed files."""

from __future__ import annotations

import gzip
import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.patterns.connectors.encoding.formats import Avro, Csv, Json, JsonLines, Parquet
from dedp_assets.patterns.connectors.landing.file_audits import FileAudit, audit_files, require_sound_files
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.records import Approval

SIZE, FORMAT, COLUMNS, RECORDS = (
    "files_are_large_enough",
    "files_have_their_format",
    "files_have_their_columns",
    "no_record_is_missing",
)
ROWS = [{"id": n, "name": f"user {n}"} for n in range(20)]


def stored(name):
    """The bytes of twenty records in the format that a name says."""
    kind = name.partition(".")[2]
    if kind.startswith("csv"):
        data = ("id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in ROWS)).encode()
    elif kind.startswith("json"):
        data = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    else:
        out = io.BytesIO()
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(ROWS), out)
        else:
            fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
            fastavro.writer(out, {"type": "record", "name": "user", "fields": fields}, ROWS)
        data = out.getvalue()
    return gzip.compress(data) if kind.endswith("gz") else data


KINDS = {"a.csv": Csv(), "a.csv.gz": Csv(), "a.jsonl": JsonLines(), "a.json.gz": JsonLines()}
KINDS |= {"a.parquet": Parquet(), "a.avro": Avro()}
every_kind = pytest.mark.parametrize(("name", "made"), KINDS.items(), ids=list(KINDS))


@pytest.fixture
def judge(tmp_path):
    """``judge({"a.csv": b"..."}, format=Csv())``: rule -> faults."""

    def judged(files, *, announced=None, **rules):
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
        found = audit_files([tmp_path / name for name in files], FileAudit(**rules), announced=announced)
        return {finding.name: finding.note for finding in found if not finding.passed}

    return judged


@every_kind
def test_a_whole_file_has_no_fault(judge, name, made):
    """Of each format, with the columns and as many records as announced."""
    announced = {name: 20}
    assert judge({name: stored(name)}, format=made, columns=["name", "id"], min_records=20, announced=announced) == {}


@every_kind
def test_a_truncated_file_is_not_of_its_format(judge, name, made):
    """Cut anywhere in the last quarter: either the format says so, or the announced number of records.

    Only CSV that is cut within its last value is a whole file like others, except for its size.
    """
    whole = stored(name)
    last = len(whole) - len(b"user 19\n") if name == "a.csv" else len(whole) - 1
    for cut in range(len(whole) * 3 // 4, last):
        assert judge({name: whole[:cut]}, format=made, announced={name: 20}), cut
    within = whole[: -len(b",user 19\n")] if name == "a.csv" else whole[:-2]
    assert list(judge({name: within}, format=made)) == [FORMAT]


@every_kind
def test_another_format_under_its_name_is_refused(judge, name, made):
    """Wrong first bytes, or text that is none of the format; nothing else is said about such a file."""
    for other in KINDS:
        if other.partition(".")[2] != name.partition(".")[2]:
            said = judge({name: stored(other)}, format=made, columns=["id"])
            assert said.keys() in ({FORMAT}, {COLUMNS}), (name, other)
            # Any text is CSV: the header tells.
            assert FORMAT in said or made == Csv()


@every_kind
def test_a_missing_column_is_named(judge, name, made):
    """By the header, the schema, or the fields of the first records."""
    said = judge({name: stored(name)}, format=made, columns=["email", "id", "Name"])
    assert said == {COLUMNS: f"{name} has no column email, Name"}


@every_kind
def test_another_number_of_records_than_announced_is_refused(judge, name, made):
    """Fewer, more, fewer than usual, and a file that never came."""
    files = {name: stored(name)}
    assert judge(files, format=made, announced={name: 21}) == {RECORDS: f"{name} has 20 of 21 announced records"}
    assert judge(files, format=made, announced={name: 19}) == {RECORDS: f"{name} has 20 of 19 announced records"}
    assert judge(files, format=made, min_records=21) == {RECORDS: f"{name} has 20 records, at least 21 are usual"}
    assert judge(files, format=made, announced={"b": 1}) == {RECORDS: "b was announced and is not there"}


def test_a_tiny_file_is_refused(judge):
    """By its bytes; an empty file of text is one, unless it may be."""
    assert judge({"a.csv": b"id\n"}, format=Csv(), min_bytes=100) == {SIZE: "a.csv has 3 bytes, at least 100 are usual"}
    assert judge({"a.jsonl": b""}, format=JsonLines()) == {SIZE: "a.jsonl has 0 bytes, at least 1 are usual"}
    assert judge({"a.jsonl": b""}, format=JsonLines(), min_bytes=0) == {}
    assert list(judge({"a.avro": b""}, format=Avro())) == [SIZE, FORMAT]


def test_all_faults_of_all_files_are_named_at_once(judge):
    """One attempt tells everything that is wrong with a delivery."""
    files = {"a.csv": b"id,name\n1,Ada\n", "b.csv": b"name\n", "c.csv": stored("a.csv.gz"), "d.csv": b""}
    said = judge(files, format=Csv(), columns=["id"], announced={"a.csv": 2})
    assert list(said) == [SIZE, FORMAT, COLUMNS, RECORDS]
    assert said[FORMAT].startswith("c.csv holds gzip data")
    assert said[COLUMNS] == "b.csv has no column id; d.csv has no column id"
    assert said[RECORDS] == "a.csv has 1 of 2 announced records"


def test_a_malformed_record_is_no_fault_of_its_file(judge):
    """Within the file or whole at its end: dead letters are for records. A text is read by its encoding."""
    lines = [b'{"id": 1}', b"no json", b'{"name": "\xe4"}', b"[1]"]
    assert judge({"a.jsonl": b"\n".join(lines) + b"\n\n"}, format=JsonLines(), columns=["id", "name"]) == {}
    assert judge({"a.jsonl": lines[2]}, format=JsonLines(encoding="iso-8859-1"), columns=["name"]) == {}
    assert judge({"a.csv": b"a,b\n1\n1,2,3\n1\n"}, format=Csv()) == {}
    assert judge({"a.csv": b'a,b\n1,"x\ny"'}, format=Csv(multiline=True), announced={"a.csv": 1}) == {}
    assert judge({"a.csv": b"1,2\n3,4"}, format=Csv(header=False), announced={"a.csv": 2}) == {}


def test_a_rule_may_only_warn_or_be_approved(tmp_path):
    """The severity is of each rule, and an approval opens what it covers."""
    file = tmp_path / "a.csv"
    file.write_bytes(b"id\n1\n")
    audit = FileAudit(format=Csv(), columns=["name"], min_bytes=100, warns=[SIZE], approvable=[COLUMNS])
    found = {finding.name: finding for finding in audit_files([file], audit)}
    assert (found[SIZE].severity, found[SIZE].refuses, found[COLUMNS].refuses) == ("warn", False, True)
    assert found[SIZE].figures == {"files": 1, "bytes": 5, "records": 1, "faults": 1}
    with pytest.raises(AuditFailed, match=r"were refused\. files_have_their_columns: a.csv has no") as refused:
        require_sound_files([file], audit)
    assert len(refused.value.findings) == 4
    let = require_sound_files([file], audit, approval=Approval(by="Ada", because="the column is gone"))
    assert {finding.name: finding.approved_by for finding in let if finding.approved_by} == {COLUMNS: "Ada"}
    with pytest.raises(AuditFailed):
        require_sound_files([file], audit, announced={"a.csv": 2}, approval=Approval(by="Ada", because="late"))


def test_no_files_have_no_fault():
    """An empty day is judged by its marker; announced files that are not there are missing."""
    assert all(finding.passed for finding in audit_files([], FileAudit(format=Csv())))
    said = audit_files([], FileAudit(format=Csv()), announced={"a.csv": 0})
    assert [finding.name for finding in said if finding.refuses] == [RECORDS]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_bytes": -1}, "min_bytes must be 0 or more, not -1"),
        ({"min_records": -2}, "min_records must be 0 or more, not -2"),
        ({"format": Csv(header=False), "columns": ["id"]}, "columns must be empty for CSV without a header"),
        ({"warns": ["sizes"]}, "FileAudit.warns must be"),
    ],
)
def test_rules_that_can_never_hold_are_refused(options, said):
    """When they are declared."""
    with pytest.raises(ConfigError, match=said):
        FileAudit(**{"format": Csv(), **options})


def test_files_of_one_array_are_judged_by_its_elements(judge):
    """Sound ones, with columns that are missing, with other members, and cut."""
    text = b'{"items": [{"id": 1}, {"id": 2, "name": "x"}]}'
    made = Json(records="items")
    assert judge({"a.json": text}, format=made, columns=["id", "name"], announced={"a.json": 2}) == {}
    assert judge({"a.json": text}, format=made, columns=["mail"]) == {COLUMNS: "a.json has no column mail"}
    assert "a.json has no array of records" in judge({"a.json": text}, format=Json())[FORMAT]
    assert "a.json is no JSON to its end" in judge({"a.json": text[:-1]}, format=made)[FORMAT]
