"""Partitions that a person names: keys, and ranges of keys."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress

import dagster as dg

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["add_partitions", "keys_named"]

_TO = "..."


def add_partitions(parser: argparse.ArgumentParser, *, default: str) -> None:
    """Add the partitions of a command: keys and ranges of keys.

    Args:
        parser: the command's.
        default: what no partition means, in words.
    """
    words = f"partition keys, or a range such as 2026-01-05{_TO}2026-01-11 (default: {default})"
    parser.add_argument("partitions", nargs="*", default=[], metavar="partition", help=words)


def keys_named(table: LakeTable[...], texts: Sequence[str]) -> list[str]:
    """List the keys of partitions and of ranges of partitions, each once.

    Args:
        table: the table.
        texts: keys, and ranges of keys with both ends.

    Raises:
        ConfigError: if there is no such partition.
    """
    return list(dict.fromkeys(key for text in texts for key in _keys(table, text)))


def _keys(table: LakeTable[...], text: str) -> Sequence[str]:
    """Return the keys of a partition, or of a range of partitions.

    Raises:
        ConfigError: if there is no such partition.
    """
    known, name = table.runs.partitions, table.spec.name
    if known is None:
        raise ConfigError(f"{name} has no partitions: leave {text} out")
    first, to, last = text.partition(_TO)
    for key in (first, last) if to else (first,):
        valid = False
        with suppress(ValueError):  # a text that is no day
            valid = known.has_partition_key(key)
        if not valid:
            example = known.get_last_partition_key() or known.get_first_partition_key()
            raise ConfigError(f"the partition must be one of {name}, such as {example}, not {key or 'empty'}")
    return known.get_partition_keys_in_range(dg.PartitionKeyRange(first, last)) if to else [first]
