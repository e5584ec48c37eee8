"""Notes on refused partitions: one for each key, whatever it is, and none that cannot be read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.run.refusals import Refusal, Refusals
from dedp_assets.patterns.delta import store_at

NOTE = Refusal(("8", "a1b2"), "1", "run-1", "too many dead letters")
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


def test_nothing_was_refused_before_anything_was_noted(tmp_path):
    """A lake without the folder is no error."""
    refusals = Refusals(store_at(tmp_path / "none"))
    refusals.clear("2026-01-05")
    assert refusals.by_key() == {}
