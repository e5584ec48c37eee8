"""Rows of a table at a version, read without Spark."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.permissions import restricted_to
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.delta.snapshots.scanning import RowScan
from dedp_assets.patterns.delta.snapshots.tiers import TIERED, Placed, stated
from dedp_assets.patterns.security.fine_grained_accessor_for_resources import grant_resources

DAYS = [date(2026, 1, 5), date(2026, 1, 5), None]


@pytest.fixture
def scan(tmp_path):
    """A function that scans partitions of a table at a version; the newest has one row more."""
    rows = pa.table({"id": ["a", "b'c", "c"], "n": [1, 2, None], 'o"dd': ["x", "y", "z"], "day": DAYS})
    for version in (rows, pa.concat_tables([rows, rows.slice(0, 1)])):
        write_deltalake(str(tmp_path / "t"), version, partition_by=["day"], mode="overwrite")
    ledger = Ledger(str(tmp_path / "t"), name="silver/t")

    def made(*partitions, version=None):
        return RowScan("silver/t", ledger.store, ledger.state(version), partitions)

    return made


def ids(table):
    return sorted(table.column("id").to_pylist())


def test_rows_are_those_of_the_version_and_the_partitions(scan):
    """All without a partition; NULL is one."""
    assert ids(scan(version=0).rows()) == ["a", "b'c", "c"]
    assert ids(scan().rows()) == ["a", "a", "b'c", "c"]
    assert ids(scan({"day": "2026-01-05"}, version=0).rows()) == ["a", "b'c"]
    assert ids(scan({"day": None}).rows()) == ["c"]
    assert ids(scan({"day": "2026-01-05"}, {"day": None}, version=0).rows()) == ["a", "b'c", "c"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([{"id": "b'c"}], ["b'c"]),
        ([{"id": "a", "n": "1"}], ["a"]),
        ([{"id": "a", "n": "2"}], []),
        ([{"id": "a"}, {"n": "2"}], ["a", "b'c"]),
        ([{"n": None}], ["c"]),
        ([{'o"dd': "y"}], ["b'c"]),
        ([{"id": "' OR 1 = 1 --"}], []),
    ],
)
def test_values_are_found_by_their_texts(scan, wanted, found):
    """Of any type; a text of a user is a value and no SQL."""
    assert ids(scan(version=0).rows(*wanted)) == found


def test_texts_are_found_within_columns(scan):
    """A quote is a character like any other."""
    assert ids(scan(version=0).holding("'", ["id", 'o"dd'])) == ["b'c"]
    assert ids(scan(version=0).holding("z", ["id", 'o"dd'])) == ["c"]
    assert ids(scan({"day": "2026-01-05"}, version=0).holding("z", ['o"dd'])) == []


def test_a_text_that_is_no_value_of_the_type_is_refused(scan):
    """With the type."""
    with pytest.raises(ConfigError, match="silver/t: n must be a value of type LONG, not many"):
        scan().rows({"n": "many"})


@pytest.fixture
def tiered_scan(tmp_path):
    """A function that scans partitions of a table whose partition 2026-01-04 lies on a tier."""
    now = pa.table({"id": ["a"], "day": [date(2026, 1, 5)]})
    write_deltalake(str(tmp_path / "cold"), pa.table({"id": ["old"], "day": [date(2026, 1, 4)]}), partition_by=["day"])

    def made(*partitions, online=True):
        part = Placed({"day": "2026-01-04"}, "cold", str(tmp_path / "cold"), 1, online=online)
        write_deltalake(str(tmp_path / "t"), now, partition_by=["day"], mode="overwrite")
        log = tmp_path / "t/_delta_log"
        (stored,) = [
            action["metaData"]
            for line in (log / f"{0:020}.json").read_text().splitlines()
            if "metaData" in (action := json.loads(line))
        ]
        marked = {"metaData": {**stored, "configuration": {TIERED: stated([part])}}}
        (log / f"{len([*log.glob('*.json')]):020}.json").write_text(json.dumps(marked))
        ledger = Ledger(str(tmp_path / "t"), name="silver/t")
        return RowScan("silver/t", ledger.store, ledger.state(), partitions)

    return made


def test_rows_on_a_tier_are_found(tiered_scan):
    """In the copy that the log names, and in no other partition; a tier that is not read is refused by name."""
    assert ids(tiered_scan().rows()) == ["a", "old"]
    assert ids(tiered_scan().rows({"id": "old"})) == ["old"]
    assert ids(tiered_scan({"day": "2026-01-05"}).rows()) == ["a"]
    assert ids(tiered_scan({"day": "2026-01-05"}, online=False).rows()) == ["a"]
    with pytest.raises(ConfigError, match=r"silver/t cannot be read in day=2026-01-04 \(tier cold\)"):
        tiered_scan(online=False).rows()


def test_a_scan_asks_for_the_permission(tiered_scan, tmp_path):
    """A block of code that may not read the table gets no row; one that may follows the log to the copy."""
    scan = tiered_scan()
    with restricted_to(grant_resources([str(tmp_path / "t")], [], identity="silver/x")):
        assert ids(scan.rows()) == ["a", "old"]
    copy_alone = grant_resources([str(tmp_path / "cold")], [], identity="silver/x")
    with restricted_to(copy_alone), pytest.raises(ConfigError, match="silver/x may not read"):
        scan.rows()


def test_a_version_whose_files_are_gone_is_refused(scan, tmp_path):
    """With the command that lists the versions."""
    DeltaTable(str(tmp_path / "t")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(ConfigError, match="can no longer be read at version 0: a vacuum removed 2 of its files"):
        scan(version=0).rows()
    assert len(scan().rows()) == 4
