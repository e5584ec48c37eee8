"""Places of the lake that the functions of a declared table may touch; a run refuses all others."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from dedp_assets.graph.declare.records import Touches
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.running.permissions import restricted_to
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import store_at
from dedp_assets.patterns.security.fine_grained_accessor_for_resources import grant_resources

__all__ = ["access_to", "declared_only", "is_absolute"]


def access_to(lake: Lake, reads: Iterable[TableSpec], tables: Sequence[TableSpec], touches: Touches) -> Access:
    """Return the access of a table's functions to a lake.

    To a written table belong its folders for checkpoints of streams and for plain files.

    Args:
        lake: the lake.
        reads: the upstream tables.
        tables: the tables that the functions write, the declared one first.
        touches: further places.
    """
    read = [lake.table(spec).store.address for spec in (*reads, *touches.reads)]
    read += [store_at(lake.root).address] if touches.whole_lake else []
    written = [lake.table(spec).store.address for spec in tables]
    written += [store_at(place(spec.name)).address for spec in tables for place in (lake.checkpoint, lake.files)]
    written += [lake.table(spec).store.address for spec in touches.writes]
    written += [store_at(each if is_absolute(each) else lake.files(each)).address for each in touches.files]
    return grant_resources(read, written, identity=tables[0].name)


def declared_only(access: Access) -> AbstractContextManager[None]:
    """Restrict a block to an access, unless a setting lifts the restriction."""
    return restricted_to(access if settings().undeclared == "refuse" else None)


def is_absolute(place: str) -> bool:
    """Return whether a text is an absolute path or a URI."""
    return place.startswith("/") or "://" in place
