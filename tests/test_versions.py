"""`dedp versions`: what it lists, shows, keeps and removes, and how it refuses."""

from __future__ import annotations

import re

import pytest

from dedp_assets.cli import main
from dedp_assets.commands import versions as command
from dedp_assets.patterns.delta.versions.exposure import load
from dedp_assets.patterns.idempotency.proxy import load_version
from dedp_assets.project import project
from tests.delta.versions.test_versions import ranking, shown
from tests.helpers import a_run

__all__ = ["ranking"]


@pytest.fixture
def dedp(ranking, monkeypatch, tmp_path, capsys):
    """``dedp("--show", "run-1-1")``: exit code, output and errors; of three versions the newest is shown."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))
    for number, views in enumerate((1, 2, 3), start=1):
        load({"/": views}, ranking, provenance=a_run(run_id=f"run-{number}", inputs={"pages": number}))

    def run(*options, table=None):
        with monkeypatch.context() as patch:
            if table is None:
                patch.setattr(command, "_target", lambda *_: ranking)
            code = main(["versions", table or ranking.name, *options])
        return code, *capsys.readouterr()

    return run


def states(listed):
    """Version -> its state, as the table on the terminal has them."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in listed.splitlines() if line.startswith("│")]
    return {row[0]: row[3] for row in rows}


def test_versions_are_listed_shown_held_and_removed(dedp, ranking):
    """A rollback with its reason; a version on hold survives an expiry of everything, and goes once it is released."""
    code, out, _ = dedp()
    assert (code, states(out)) == (0, {"run-3-1": "shown", "run-2-1": "", "run-1-1": ""})
    code, out, _ = dedp("--show", "run-1-1", "--because", "the newer ones are wrong")
    assert code == 0
    assert "1 rows shown as run-1-1 instead of run-3-1" in out
    assert "the newer ones are wrong" in out
    assert shown(ranking) == {"/": 1}
    assert dedp("--hold", "run-2-1", "--because", "a court asks for it")[0] == 0
    code, out, _ = dedp("--expire-days", "0")
    assert (code, states(out)) == (0, {"run-2-1": "held", "run-1-1": "shown"})
    assert "removed run-3-1" in out
    assert dedp("--release", "run-2-1", "--because", "it is over")[0] == 0
    assert states(dedp("--expire-days", "0")[1]) == {"run-1-1": "shown"}
    assert shown(ranking) == {"/": 1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--hold", "run-1-1"), "say why run-1-1 is held"),
        (("--show", "run-1-1"), "because must be a text that is not empty"),
        (("--release", "nobody", "--because", "x"), "gold/ranking has no version nobody: it has run-"),
        (("--expire-days", "-1"), "--expire-days must be 0 or more, not -1"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(dedp, ranking, options, said):
    """With an exit code, and nothing is changed."""
    version = ranking.ledger.version()
    code, _, errors = dedp(*options)
    assert code == (3 if "no version" in said else 2)
    assert said in errors
    assert len(errors.splitlines()) == 1
    assert ranking.ledger.version() == version


def test_a_table_without_versions_is_refused_with_those_that_have_some(dedp):
    """By name, all of the graph that show a version."""
    code, _, errors = dedp(table="silver/visits")
    (known,) = re.findall(
        r"^dedp versions: table must be one with versions, such as (.+), not silver/visits\n$", errors
    )
    showing = {table.spec.name for table in project().tables() if load_version in table.patterns}
    assert (code, sorted(known.split(", "))) == (2, sorted(showing))
    assert "gold/devices" in showing
