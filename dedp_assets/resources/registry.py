"""The schema registry of topics: any registry by URL, or the laptop's own by the announced URL."""

from __future__ import annotations

from dedp_assets.patterns.connectors.schema_registry import SchemaRegistry
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.resources.announced import announced
from dedp_assets.resources.environments import Settings

__all__ = ["FOLDER", "address", "client", "lacking"]

FOLDER = "registry"
"""Folder of the home with the own registry's address, and with the schemas of one without a database."""


def address(settings: Settings) -> str:
    """Return the URL in ``DEDP_REGISTRY``, otherwise of the laptop's own registry; may be empty."""
    return settings.registry_url or announced(settings.home / FOLDER)


def client(settings: Settings) -> SchemaRegistry | None:
    """Return a client of the configured schema registry.

    ``None`` where neither a URL is configured nor a registry is announced.

    Raises:
        ConfigError: for a URL that is no address of a registry.
    """
    return SchemaRegistry(url) if (url := address(settings)) else None


def lacking(settings: Settings) -> str:
    """Return the reason why the configured schema registry is unusable now.

    Empty for a usable registry, and where none is configured.
    """
    try:
        registry = client(settings)
        if registry:
            registry.ask("GET", "schemas/types")
    except PatternError as error:
        return str(error)
    return ""
