"""`dedp hold`: legal holds of partitions, listed, put and released."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dedp_assets.cli import main

WHO = ("--by", "legal", "--because", "case 17")


@pytest.fixture
def hold(monkeypatch, tmp_path, capsys):
    """``hold("day=mon")`` of a table with two days: exit code, output and errors."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    days = pa.table({"price": [1, 2], "day": ["mon", "tue"]})
    write_deltalake(str(tmp_path / "lakehouse/gold/days"), days, partition_by=["day"])

    def run(*options):
        return main(["hold", "gold/days", *options]), *capsys.readouterr()

    return run


def test_a_partition_is_held_and_released(hold):
    """Listed until who holds has released."""
    assert hold()[:2] == (0, "gold/days: no partition is on legal hold\n")
    code, out, _ = hold("day=mon", *WHO)
    assert (code, out.splitlines()[0]) == (0, "day=mon (legal: case 17) is held")
    assert hold()[1] == "on legal hold: day=mon (legal: case 17)\n"
    code, out, _ = hold("day=mon", *WHO, "--release")
    assert (code, out.splitlines()[-1]) == (0, "gold/days: no partition is on legal hold")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("day=sun", *WHO), "with rows, not of day=sun"),
        (("mon", *WHO), "must be column=value, .*not mon"),
        (WHO, "a partition must be stated, .*dedp hold gold/days day=2026-01-05"),
        (("day=mon",), "by"),
    ],
)
def test_a_wrong_hold_is_refused(hold, options, said):
    """A partition without rows, or none; nobody who holds it: nothing is written."""
    code, _, err = hold(*options)
    assert (code, bool(re.search(said, err))) == (2, True), err
    assert hold()[1] == "gold/days: no partition is on legal hold\n"
