"""The schema registry of topics: any registry by URL, or the laptop's own by the announced URL."""

from __future__ import annotations

from dedp_assets.graph.resources.announced import announced
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.tokens import token_file
from dedp_assets.graph.systems.identities import home_authority
from dedp_assets.patterns.connectors.kafka.schema_registry import SchemaRegistry
from dedp_assets.patterns.core.errors import NotReady, PatternError

__all__ = ["FOLDER", "OWN", "address", "at", "client", "lacking"]

FOLDER = "registry"
"""Folder of the home with the own registry's address and schemas."""
OWN = "own"
"""``DEDP_REGISTRY``: `dedp up` runs a registry."""


def address(settings: Settings) -> str:
    """Return the URL in ``DEDP_REGISTRY``, otherwise of the laptop's own registry; may be empty."""
    return announced(settings.home / FOLDER) if settings.registry in ("", OWN) else settings.registry


def client(settings: Settings) -> SchemaRegistry | None:
    """Return a client of the configured schema registry.

    ``None`` where neither a URL is configured nor a registry is announced.

    Raises:
        ConfigError: for a URL that is no address of a registry.
        NotReady: if the laptop's own registry is asked for and does not run; records never go without it then.
    """
    if not (url := address(settings)) and settings.registry == OWN:
        raise NotReady(f"DEDP_REGISTRY is {OWN}, and no registry runs in {settings.home}: start `dedp up`")
    return at(settings, url) if url else None


def at(settings: Settings, url: str) -> SchemaRegistry:
    """Return a client of the schema registry at a URL, with a token for a locked registry of the home.

    Raises:
        ConfigError: for a URL that is no address of a registry.
    """
    if settings.secure != "on" or url != announced(settings.home / FOLDER):
        return SchemaRegistry(url)
    return SchemaRegistry(url, token_file=token_file(settings, FOLDER), authorities=home_authority(settings).path)


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
