"""`dedp explain`: the tree, a row, a comparison, their documents, and refusals in one line."""

from __future__ import annotations

import json
import shutil
from datetime import date

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.cli import main
from dedp_assets.commands import explain as command
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.delta.staging.stage_files import KEPT_PART
from tests.graph.observe.origins.hand_written_lake import DAY, EVENTS, LINES, NEXT, PAGES, HandWritten, declared, line

NEW = {"/": 1, "/b": 5, "/z": 1}


@pytest.fixture
def dedp(monkeypatch, tmp_path, capsys):
    """``dedp("gold/pages", DAY, "--row", "page=/b")``: exit code, output and errors, of a lake of three layers."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.setattr(command, "_declared", declared)
    lake = HandWritten(tmp_path / "lakehouse")
    read = lake.land(DAY, line("v1", "ada"), line("v2"), line("v1"), '{"id": "torn')
    lake.letter(DAY, read, '{"id": "torn', 4, "malformed JSON")
    valid = lake.validate(DAY, read, ("v1", "ada", "/", 1), ("v2", "u1", "/b", 2))
    lake.count(DAY, valid, {"/": 1, "/b": 1, "/c": 9})
    lake.count(DAY, valid, {"/": 1, "/b": 2, "/d": 1}, approval={"by": "Ada", "because": "a sale"}, verdict="approved")

    def run(*options):
        code = main(["explain", *options])
        return code, *capsys.readouterr()

    return run


def test_the_tree_goes_from_the_table_to_the_files(dedp):
    """With runs, versions and the approval; as a document, too."""
    code, out, errors = dedp(PAGES.name, DAY)
    assert (code, errors) == (0, "")
    source = ("landing/lines/2026-01-05, content sha-2026-01-05", "a.jsonl, 4 lines")
    made = ("gold/pages version 1, day=2026-01-05", "by run run-5", "approved by Ada, because a sale", "by run run-3")
    for part in (*made, *source):
        assert part in out
    code, out, _ = dedp(PAGES.name, DAY, "--json")
    (made,) = json.loads(out)["origin"]["commits"]
    assert (made["run"], made["approval"]["by"], made["inputs"][0]["origin"]["table"]) == ("run-5", "Ada", EVENTS.name)


def test_a_row_is_named_by_its_column_or_by_the_declared_key(dedp):
    """The key of a partition is the rest of the declared one."""
    code, out, _ = dedp(PAGES.name, DAY, "--row", "/b")
    assert code == 0
    assert "landed landing/lines/2026-01-05 a.jsonl line 2" in out
    assert dedp(PAGES.name, DAY, "--row", "page=/b")[1] == out
    code, out, _ = dedp(EVENTS.name, DAY, "--row", "v1", "--json")
    document = json.loads(out)
    assert (code, document["row"], document["ended"]) == (0, {"id": "v1"}, [])
    assert document["trail"]["repeats"] == [
        {"source": f"landing/lines/{DAY}", "file": "a.jsonl", "line": 3, "repeats": "a.jsonl line 1"}
    ]
    assert "ada" not in out


def test_a_row_that_is_missing_is_found_where_it_ended(dedp):
    """With exit code 1, as a table and as a document, without a value of a person."""
    code, out, _ = dedp(EVENTS.name, DAY, "--row", "torn")
    assert (code, out.splitlines()[0]) == (1, f"No row of silver/events day={DAY} has id torn")
    assert "dead letter" in out
    code, out, _ = dedp(EVENTS.name, DAY, "--row", "user_id=ada", "--row", "page=/b", "--json")
    assert code == 1
    assert json.loads(out)["row"] == {"user_id": "aaa", "page": "/b"}
    assert [each["kind"] for each in json.loads(out)["ended"]] == ["unknown"]


def test_two_versions_are_compared_by_the_key(dedp):
    """Rows in, out and changed by column, with their keys; exit code 1 says that some differ."""
    code, out, _ = dedp(PAGES.name, DAY, "--against", "0", "--json")
    found = json.loads(out)["differences"]
    assert (code, found["key"], found["rows"]) == (1, ["page", "day"], [3, 3])
    assert (found["came"], found["went"]) == ({"count": 1, "keys": [["/d", DAY]]}, {"count": 1, "keys": [["/c", DAY]]})
    assert found["columns"] == {"views": {"count": 1, "keys": [["/b", DAY]]}}
    code, out, _ = dedp(PAGES.name, DAY, "--against", "0")
    assert (code, out.splitlines()[0]) == (
        1,
        "gold/pages day=2026-01-05: 3 rows at version 0, 3 at version 1, by page, day",
    )
    code, out, _ = dedp(PAGES.name, DAY, "--against", "1")
    assert (code, out) == (
        0,
        "gold/pages day=2026-01-05: 3 rows at version 1, 3 at version 1, by page, day; no row differs\n",
    )


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (
            (PAGES.name,),
            2,
            f"partition must be one of gold/pages, such as {DAY}, not an empty text: `dedp explain gold/pages {DAY}`",
        ),
        ((PAGES.name, NEXT), 2, f"not {NEXT}: `dedp explain gold/pages {DAY}`"),
        ((PAGES.name, "monday"), 2, f"partition must be one of gold/pages, such as {DAY}, not monday"),
        (
            (PAGES.name, DAY, "--row", "size=1"),
            2,
            "row must name a column of gold/pages (page, views, day), not size: `dedp",
        ),
        (
            (PAGES.name, DAY, "--row", "id=v1"),
            2,
            f"silver/events has it: `dedp explain silver/events {DAY} --row id=v1`",
        ),
        ((PAGES.name, DAY, "--row", "views=many"), 2, "gold/pages: views must be a value of type LONG, not many"),
        (
            (LINES.name, DAY, "--row", "v1"),
            2,
            "row must be COLUMN=VALUE, as bronze/lines declares no key, not v1: `dedp",
        ),
        ((PAGES.name, DAY, "--against", "9"), 3, "gold/pages has no version 9: its newest is 1"),
        ((PAGES.name, DAY, "--against", "sale"), 3, "gold/pages has no milestone sale"),
        ((PAGES.name, DAY, "--against", "2000-01-01"), 2, "gold/pages has no version at 2000-01-01"),
    ],
)
def test_questions_without_an_answer_are_refused_in_one_line(dedp, options, code, sentence):
    """With an example, and the command that helps."""
    found, out, errors = dedp(*options)
    assert (found, out, len(errors.splitlines())) == (code, "", 1)
    assert sentence in errors


def test_a_version_whose_files_are_gone_is_refused(dedp, tmp_path):
    """A vacuum keeps the log, whose tree is told all the same."""
    place = str(tmp_path / "lakehouse/gold/pages")
    DeltaTable(place).vacuum(0, dry_run=False, enforce_retention_duration=False)
    code, _, errors = dedp(PAGES.name, DAY, "--against", "0")
    assert (code, "can no longer be read at version 0: a vacuum removed 1 of its files" in errors) == (2, True)
    assert dedp(PAGES.name, DAY)[0] == 0


def test_a_partition_that_was_refused_from_the_start_says_why(dedp, tmp_path):
    """Nothing was published of it, and the note on the refusal has the reason."""
    noted = Refusal(("1",), "1", "run-9", "gold/pages 2026-01-06: volume_is_usual: below 0.5")
    Refusals(Lake(root=str(tmp_path / "lakehouse"), engine=None).refused(PAGES.name)).note(NEXT, noted)
    code, out, _ = dedp(PAGES.name, NEXT)
    assert (code, "a later run was refused" in out, "volume_is_usual: below 0.5 (run run-9)" in out) == (0, False, True)


def test_a_table_without_rows_is_refused(dedp, tmp_path):
    """An emptied one has a tree, and no row to explain; a table without partitions takes none."""
    lake = HandWritten(tmp_path / "lakehouse")
    lake.count(DAY, 0, {})
    assert dedp(PAGES.name, DAY)[0] == 0
    code, _, errors = dedp(PAGES.name, DAY, "--row", "/b")
    assert (
        code,
        f"gold/pages has no rows, of which one could be explained: `dedp run gold/pages {DAY}`" in errors,
    ) == (2, True)


def refuse(root, rows, *, kept=""):
    """Refuse the day's pages: a stage with the rows, of which one part is the table's, and a note."""
    lake, stage = Lake(root=str(root / "lakehouse"), engine=None), root / "stage"
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    write_deltalake(stage, pa.table(columns), partition_by=["outcome"] if kept else [])
    if kept:  # a property that delta-rs reads, and does not write
        first = stage / "_delta_log/00000000000000000000.json"
        first.write_text(first.read_text().replace('"configuration":{', f'"configuration":{{"{KEPT_PART}":"{kept}"'))
    note = Refusal(("1",), "1", "run-9", "rows_are_as_before: other rows than before", stage=str(stage))
    Refusals(lake.refused(PAGES.name)).note(DAY, note)
    return stage


@pytest.mark.parametrize("kept", ["", "valid"])
def test_refused_rows_are_compared_with_the_stored_rows(dedp, tmp_path, kept):
    """By the declared key: what would come, go and change; letters staged beside the rows play no part."""
    day = date.fromisoformat(DAY)
    rows = [{"page": page, "views": n, "day": day, **({"outcome": "valid"} if kept else {})} for page, n in NEW.items()]
    dead = [{"page": "/bad", "views": 0, "day": day, "outcome": "dead"}] if kept else []
    stage = refuse(tmp_path, [*rows, *dead], kept=kept)
    code, out, _ = dedp(PAGES.name, DAY, "--against", "refused")
    assert (code, "3 rows at version 1, 3 refused, by page, day" in " ".join(out.split())) == (1, True)
    found = json.loads(dedp(PAGES.name, DAY, "--against", "refused", "--json")[1])["differences"]
    counts = {name: found[name]["count"] for name in ("came", "went", "changed")}
    assert (counts, [*found["columns"]]) == ({"came": 1, "went": 1, "changed": 1}, ["views"])
    shutil.rmtree(stage)
    code, _, errors = dedp(PAGES.name, DAY, "--against", "refused")
    assert (code, "refused rows are no longer there" in errors) == (2, True)


def test_a_partition_that_nobody_refused_has_no_refused_rows(dedp):
    """One line, with the command that says more."""
    code, _, errors = dedp(PAGES.name, DAY, "--against", "refused")
    why = f"gold/pages {DAY}: nothing is refused: `dedp explain gold/pages {DAY}`"
    assert (code, errors) == (2, f"dedp explain: {why}\n")
