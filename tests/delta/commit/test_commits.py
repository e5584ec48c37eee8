"""Maintenance commits: all of a version or nothing of it, and never over somebody else's."""

from __future__ import annotations

import json
import os

import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.core.errors import Conflict
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, store_at
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.commit.creation import first_commit
from tests.helpers import a_record, write_log


@pytest.fixture
def ledger(tmp_path):
    """A table with one version."""
    write_log(tmp_path / "events", {"id": "long"}, [], [])
    return Ledger(tmp_path / "events", name="silver/events")


def test_a_commit_reads_back_with_operation_record_and_figures(ledger):
    """By the ledger and by deltalake alike; it is no write."""
    record = a_record("silver/events", {})
    commits.write(ledger.store, 1, [commits.info(record, "OPTIMIZE", ledger.state(), {"numAddedFiles": 3})])
    commit = ledger.commit(1)
    assert (commit.operation, commit.maintenance, commit.record) == ("OPTIMIZE", record, None)
    assert (commit.metrics, commit.changed) == ({"numAddedFiles": "3"}, frozenset())
    newest = DeltaTable(str(ledger.location)).history(1)[0]
    assert (newest["operation"], newest["readVersion"]) == ("OPTIMIZE", 0)
    assert [action["commitInfo"]["readVersion"] for action in commits.read_actions(ledger.store, 1)] == [0]


def test_a_version_that_exists_is_not_written_over(ledger):
    """The other writer's commit stays as it is, and no draft is left behind."""
    log = ledger.location / "_delta_log"
    before = (log / f"{0:020d}.json").read_bytes()
    with pytest.raises(Conflict, match="another writer changed the table first, version 0 is theirs"):
        commits.write(ledger.store, 0, [{"commitInfo": {}}])
    assert [file.name for file in log.iterdir()] == [f"{0:020d}.json"]
    assert (log / f"{0:020d}.json").read_bytes() == before


def test_a_version_that_is_not_there_has_no_actions(ledger):
    """An operation that had nothing to do makes no commit."""
    assert list(commits.read_actions(ledger.store, 1)) == []


def test_every_character_is_read_as_it_was_written(tmp_path):
    """By a reader that takes pairs of surrogates for other characters, and in lines that only the protocol ends."""
    name, text = "\U00020000", "one\u2028line \U0002f800"
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {"comment": text}}]
    schema = json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False)
    commits.write(store_at(tmp_path), 0, commits.declaration(schema, [], configuration={"note": text}))
    table = DeltaTable(str(tmp_path))
    assert [(each.name, each.metadata) for each in table.schema().fields] == [(name, {"comment": text})]
    assert table.metadata().configuration == {"note": text}
    assert [next(iter(action)) for action in commits.read_actions(store_at(tmp_path), 0)] == ["protocol", "metaData"]


def test_a_checksum_goes_with_its_version(tmp_path):
    """What the retention of the log removes leaves nothing behind."""
    properties = {"delta.logRetentionDuration": "interval 1 hour", "delta.checkpointInterval": "3"}
    spec = TableSpec("silver/t", {"id": Column("INT")}, properties=properties)
    log, ledger = tmp_path / "_delta_log", Ledger(tmp_path, name="silver/t")
    commits.write(store_at(tmp_path), 0, first_commit(spec))
    for version in range(1, 7):
        if version == 4:
            for path in log.iterdir():
                os.utime(path, (1, 1))
        before = ledger.state()
        commits.write(
            store_at(tmp_path), version, [{"txn": {"appId": "t", "version": version, "lastUpdated": version}}]
        )
        commits.keep_readable(store_at(tmp_path), before)
    kept = {kind: sorted(int(path.stem) for path in log.glob(f"[0-9]*.{kind}")) for kind in ("json", "crc")}
    assert kept["crc"] == kept["json"]
    assert min(kept["json"]) > 0
