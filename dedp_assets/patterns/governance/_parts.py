"""Parts of a document that note which of their keys were read: the others can be named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Part"]

_LABELS = ("name", "property", "metric", "rule")
"""Keys whose text names one part of a list."""


class Part:
    """An object of a document.

    Args:
        stated: the object.
        path: its place in the document.

    Raises:
        ConfigError: if it is no object.
    """

    def __init__(self, stated: object, path: str = "document") -> None:
        if not isinstance(stated, Mapping):
            raise ConfigError(f"{path} must be an object with keys and values, not {type(stated).__name__}")
        self.path = path
        self._stated: Mapping[str, Any] = stated
        self._read = dict[str, list[Part]]()

    def __contains__(self, key: str) -> bool:
        return self._stated.get(key) not in (None, "", [])

    def take(self, *keys: str) -> None:
        """Note keys as read that say nothing more than others do."""
        for key in keys:
            self._read.setdefault(key, [])

    def leave(self, key: str) -> None:
        """Note a key as not read after all."""
        self._read.pop(key, None)

    def value(self, key: str, kind: type | tuple[type, ...] = object, default: Any = None) -> Any:  # noqa: ANN401 - JSON
        """Return the value of a key, and note the key as read.

        Raises:
            ConfigError: if the value is of another type.
        """
        self.take(key)
        found = self._stated.get(key)
        if found is None:
            return default
        if not isinstance(found, kind) or (isinstance(found, bool) and kind not in (bool, object)):
            names = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
            raise ConfigError(f"{self.path}.{key} must be {names}, not {found!r}")
        return found

    def text(self, key: str) -> str:
        """Return the text of a key; empty without one."""
        found = self.value(key, (str, int, float), "")
        return found if isinstance(found, str) else str(found)

    def name(self, key: str = "name") -> str:
        """Return the name at a key; empty without one.

        Raises:
            ConfigError: for a number, a date or yes, which YAML makes of a name without quotes: 05 would become 5.
        """
        found = self.value(key)
        if not isinstance(found, str | None):
            raise ConfigError(f"{self.path}.{key} must be a text, not {found}: write it in quotes")
        return found or ""

    def part(self, key: str) -> Part:
        """Return the object of a key; an empty one without the key."""
        if self._read.get(key):  # with what was read in it so far
            return self._read[key][0]
        found = Part(self._stated[key] if key in self else {}, f"{self.path}.{key}")
        self._read[key] = [found]
        return found

    def parts(self, key: str) -> list[Part]:
        """Return the objects in the list of a key, placed by name."""
        found = list[Part]()
        for number, each in enumerate(self.value(key, list, [])):
            named = [each[name] for name in _LABELS if each.get(name)] if isinstance(each, dict) else []
            label = named[0] if named else number
            found.append(Part(each, f"{self.path}.{key}[{label}]"))
        self._read[key] = found
        return found

    def unread(self) -> Iterator[str]:
        """Yield the places of the keys that were not read, below parts as well."""
        for key in self._stated:
            if key in self._read:
                for each in self._read[key]:
                    yield from each.unread() if each._read else (each.path.removeprefix("document."),)
            elif key in self:
                yield f"{self.path}.{key}".removeprefix("document.")
