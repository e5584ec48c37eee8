"""Notes on refused partitions: one for each key, whatever it is, and none that cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.outcomes.refusals import Refusal, Refusals, judged_by
from dedp_assets.patterns.core.results import LetterReason
from dedp_assets.patterns.delta import Ledger, store_at
from tests.helpers import write_log

LETTERS = (LetterReason("at is not a TIMESTAMP", 3, "such as 'x'"),)
NOTE = Refusal(("8", "a1b2"), "1", "run-1", "too many dead letters", LETTERS, "/lake/x/staged-1", "0a1b2c3d")
KEYS = st.one_of(st.sampled_from(["", ".", "..", "%", "/", "a/b", ".json", "x.json", " "]), st.text(max_size=15))


@given(keys=st.sets(KEYS, max_size=5))
def test_every_key_has_a_note_of_its_own(tmp_path_factory, keys):
    """Empty, dotted, with slashes or signs of the escape: what is noted is read back, and cleared alone."""
    refusals = Refusals(store_at(tmp_path_factory.mktemp("notes")))
    for key in keys:
        refusals.note(key, NOTE)
    assert refusals.by_key() == dict.fromkeys(keys, NOTE)
    for key in sorted(keys)[:1]:
        refusals.clear(key)
        assert refusals.by_key() == dict.fromkeys(keys - {key}, NOTE)


def test_a_note_that_cannot_be_read_is_none(tmp_path):
    """It costs a run that is refused again, and no tick."""
    refusals = Refusals(store_at(tmp_path))
    refusals.note("2026-01-05", NOTE)
    for number, content in enumerate(["", "{", "[]", '{"goals": 1}', '{"goals": [], "strange": 1}', "\xff"]):
        (tmp_path / f"{number}.json").write_text(content, encoding="latin-1")
    assert refusals.by_key() == {"2026-01-05": NOTE}


def test_a_note_of_an_older_release_holds_as_before(tmp_path):
    """It names no letters and no declaration."""
    refusals = Refusals(store_at(tmp_path))
    (tmp_path / "1.json").write_text('{"goals": ["8"], "code_version": "1", "run_id": "run-1", "reason": "why"}')
    (note,) = refusals.by_key().values()
    assert note == Refusal(("8",), "1", "run-1", "why")
    assert note.holds("1", "any")


def test_a_note_holds_for_the_code_the_declaration_and_the_stored_table_that_refused(tmp_path):
    """A stored table that was mended is a reason to try again, as is another gate; more rows in it are none."""
    ledger = Ledger(str(tmp_path), name="silver/x")
    before = judged_by("gates", [ledger])
    write_log(tmp_path, {"id": "long"}, [], [{"changed": [{}]}])
    now = judged_by("gates", [ledger])
    note = replace(NOTE, judged_by=now)
    assert (note.holds("1", now), note.holds("2", now), note.holds("1", before)) == (True, False, False)
    write_log(tmp_path, {"id": "long"}, [], [{"changed": [{}]}])
    assert note.holds("1", judged_by("gates", [ledger]))
    assert not note.holds("1", judged_by("other gates", [ledger]))
    meta = {"id": "0", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
    column = {"name": "id", "type": "string", "nullable": True, "metadata": {}}
    meta["schemaString"] = json.dumps({"type": "struct", "fields": [column]})
    (tmp_path / f"_delta_log/{3:020}.json").write_text(json.dumps({"metaData": meta}))
    assert not note.holds("1", judged_by("gates", [ledger]))


def test_a_note_does_not_hold_after_a_change_of_a_reference(tmp_path):
    """It is no input that a partition follows, and may be what the refusal asked to mend."""
    reference, none = Ledger(str(tmp_path / "users"), name="silver/users"), Ledger(str(tmp_path / "x"), name="x")
    seen = {judged_by("gates", [none], [reference])}
    for _ in range(2):
        write_log(tmp_path / "users", {"id": "long"}, [], [{"changed": [{}]}])
        seen.add(judged_by("gates", [none], [reference]))
    assert len(seen) == 3


def test_nothing_was_refused_before_anything_was_noted(tmp_path):
    """A lake without the folder is no error."""
    refusals = Refusals(store_at(tmp_path / "none"))
    refusals.clear("2026-01-05")
    assert refusals.by_key() == {}
