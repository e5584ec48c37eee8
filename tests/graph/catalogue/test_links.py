"""Links from Dagster's pages to the status page."""

from __future__ import annotations

import pytest

from dedp_assets.graph.catalogue.links import status_link
from dedp_assets.graph.catalogue.rendering import metadata_of
from dedp_assets.graph.declare import Follow
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from tests.hand_written import commit_day, declare

DAY = "2026-01-19"


@pytest.mark.parametrize("address", ["http://127.0.0.1:3001", "http://127.0.0.1:3001/"])
def test_assets_and_runs_lead_to_the_status_page(tmp_path, monkeypatch, address):
    """Where one is served: the metadata of the asset, and of what a run wrote."""
    monkeypatch.setenv("DEDP_STATUS_PAGE", address)
    table = declare("silver/s", Follow())
    (spec,) = table.definition().specs
    assert spec.metadata["status page"].value == "http://127.0.0.1:3001/table/silver/s"
    lake = Lake(root=str(tmp_path), engine=SparkEngine())
    commit_day(lake, "silver/s", DAY)
    stored = lake.table(table.spec)
    shown = metadata_of(stored, {DAY: stored.ledger.commit(1)}, {}, column="day")[DAY]
    assert shown["status page"].value == "http://127.0.0.1:3001/table/silver/s"


def test_there_is_no_link_without_a_status_page(monkeypatch):
    """As in a command that runs alone."""
    monkeypatch.delenv("DEDP_STATUS_PAGE", raising=False)
    assert status_link("silver/s") == {}
    (spec,) = declare("silver/s", Follow()).definition().specs
    assert "status page" not in spec.metadata


def test_any_name_of_a_table_is_an_address(monkeypatch):
    """Its characters are quoted."""
    monkeypatch.setenv("DEDP_STATUS_PAGE", "http://x")
    assert status_link("gold/a b?#")["status page"].value == "http://x/table/gold/a%20b%3F%23"
