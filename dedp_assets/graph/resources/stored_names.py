"""Names of the tables in a lake, read without Dagster, as a shell asks at each completion."""

from __future__ import annotations

from dedp_assets.patterns.delta import is_link, store_at

__all__ = ["stored_names"]


def stored_names(lake: str, *, replicas: bool = False) -> list[str]:
    """List the names of the tables at ``<lake>/<layer>/<dataset>``, sorted.

    Args:
        lake: location of the tables: a path or a URI.
        replicas: whether links to replicas are among them.
    """
    root = store_at(lake)
    named = [f"{layer}/{dataset}" for layer in root.list() for dataset in root.list(layer)]
    tables = [name for name in named if root.has_files(f"{name}/_delta_log")]
    return sorted(name for name in tables if replicas or not is_link(root.within(name)))
