"""Stores of a registry, and a registry over each."""

from __future__ import annotations

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from dedp_assets.local.registry.app import serve
from dedp_assets.local.registry.store import FileStore, PostgresStore
from dedp_assets.patterns.quality.schema_compatibility_enforcer import judge_schema


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
def store(request, tmp_path):
    """A store without schemas: a file, and a database."""
    if request.param == "file":
        return FileStore(tmp_path / "registry")
    return PostgresStore(request.getfixturevalue("database").connect)


@pytest.fixture
def url(store):
    """The address of a registry over the store."""
    from tests.fixtures import answering  # a plugin, which pytest imports after this file

    with answering(serve(store, judge_schema), lifespan="off") as address:
        yield address


@pytest.fixture
def client(url):
    """Confluent's client, which tries nothing again."""
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as made:
        yield made
