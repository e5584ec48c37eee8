"""Reader of documents of the Open Data Contract Standard (ODCS), of this library or of others.

What a :class:`Contract` can say is read; the rest of the document is named, in words of a rule or by its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from typing import Any

from dedp_assets.patterns.core.classes import CLASSES, Classification
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.governance._contracts import Consumer, Contract, Sla
from dedp_assets.patterns.governance._parts import Part
from dedp_assets.patterns.governance._physical_types import sql_type
from dedp_assets.patterns.governance._read_quality import RulesRead

__all__ = ["read_contract"]

_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", re.IGNORECASE)
_HOURS = {"s": 1 / 3_600, "min": 1 / 60, "h": 1.0, "d": 24.0, "w": 168.0}
_UNITS = {
    "s": "s sec secs second seconds", "min": "min mins minute minutes", "h": "h hr hrs hour hours",
    "d": "d day days", "w": "w wk week weeks",
}  # fmt: skip
_HOURS_OF = {name: _HOURS[unit] for unit, names in _UNITS.items() for name in names.split()}
_AGE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_CLOCK = re.compile(r"(\d\d:\d\d)(?::00)?\s*(Z|[+-]\d\d:\d\d)?", re.IGNORECASE)
_CLASSES: Mapping[str, Classification] = {
    **{each: each for each in CLASSES if each}, **dict.fromkeys(("pii", "personal data"), "personal"),
    "free_text": "free text", "quasi-identifying": "quasi",
}  # fmt: skip
"""Classification in a document, in lower case -> class."""
_IDENTITY = ("apiVersion", "kind", "id", "name", "status")


def read_contract(document: object, *, table: str = "") -> Contract:
    """Read the contract of a table from a document of ODCS 3.

    A rule that is neither a predicate nor a bound of the contract becomes a rule in words, as a bound on another metric
    does; rows of ``rowCount`` are taken for a day's. Parts that a contract has no place for are named in ``not_read``.

    Args:
        document: the document.
        table: name of the table, in a document of several.

    Raises:
        ConfigError: for a document of another standard, a table that it does not have, or a value that is not of its
            type.

    Example:
        >>> stated = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "1", "version": "1.0.0", "tags": ["shop"]}
        >>> column = {"name": "id", "logicalType": "string", "logicalTypeOptions": {"maxLength": 5}}
        >>> contract = read_contract({**stated, "schema": [{"name": "orders", "properties": [column]}]})
        >>> contract.columns["id"].type, contract.not_read
        ('VARCHAR(5)', ('tags',))
    """
    whole = Part(document)
    stated, kind = whole.text("apiVersion"), whole.text("kind")
    if kind != "DataContract" or not stated.startswith("v3."):
        raise ConfigError(f"document must be a DataContract of ODCS v3, not {kind or 'nothing'} of {stated!r}")
    chosen = _chosen(whole, table)
    columns = _Columns.of(chosen)
    rules = RulesRead()
    rules.read(chosen.parts("quality"))
    for name, each in columns.parts.items():
        rules.read_column(name, columns.declared[name], each)
    more = _customs(whole, "noticeDays", "consumers")
    found: dict[str, Any] = {
        "name": _name_of(chosen),
        "version": _version(whole.text("version")),
        "owner": _owner(whole),
        "columns": columns.declared,
        "partition_by": columns.placed("partitioned", "partitionKeyPosition"),
        "key": columns.placed("primaryKey", "primaryKeyPosition"),
        "comment": chosen.text("description"),
        "defaults": columns.defaults,
        "quality": rules.quality(),
        "sla": _sla(whole, chosen),
        "consumers": _consumers(more.get("consumers")),
        "notice_days": more["noticeDays"].value("value", int) if "noticeDays" in more else 30,
        "published_at": _published_at(whole),
    }
    whole.take(*_IDENTITY)
    chosen.take("name", "physicalType", "logicalType")
    return Contract(**found, not_read=tuple(whole.unread()))


def _chosen(whole: Part, table: str) -> Part:
    """Return the object of the document's schema with the table."""
    objects = whole.parts("schema")
    named = [each for each in objects if table in (each.name(), each.name("physicalName"))] if table else objects
    if len(named) != 1:
        names = ", ".join(map(_name_of, objects)) or "none"
        wanted = f"one table {table}" if table else "one table, or one named by table="
        raise ConfigError(f"document must describe {wanted}, not {names}")
    for other in objects:
        if other is not named[0]:
            other.leave("name")
            other.leave("physicalName")
    return named[0]


def _name_of(stated: Part) -> str:
    return stated.name("physicalName") or stated.name()


@dataclass(frozen=True)
class _Columns:
    """The columns of a table by name: declarations, parts of the document, and defaults."""

    declared: dict[str, Column]
    parts: dict[str, Part]
    defaults: dict[str, str]

    @classmethod
    def of(cls, table: Part) -> _Columns:
        found = cls({}, {}, {})
        for each in table.parts("properties"):
            if each.text("semanticType") == "measure":  # computed from the table, and not in it
                each.leave("semanticType")
                continue
            if not (name := _name_of(each)):
                raise ConfigError(f"{each.path} must have a name, not none")
            each.take("name")
            if twice := [other for other in found.parts if other.lower() == name.lower()]:
                raise ConfigError(f"{each.path} must have a name of its own, not {name} beside {twice[0]}")
            found.parts[name] = each
            found._declare(name, each)
        return found

    def _declare(self, name: str, stated: Part) -> None:
        more = _customs(stated, "technical", "replica", "default", "purpose")
        kind, length = sql_type(stated), stated.part("logicalTypeOptions").value("maxLength", int)
        classification = _CLASSES.get(stated.text("classification").lower(), "")
        if not classification:
            stated.leave("classification")
        purpose = more["purpose"].value("value", list, ()) if "purpose" in more else ()
        self.declared[name] = Column(
            f"VARCHAR({length})" if kind == "STRING" and (length or 0) > 0 else kind,
            stated.text("description"),
            stated.value("required", bool, default=False),
            classification=classification,
            purpose=tuple(map(str, purpose)),
            technical=bool(more["technical"].value("value", bool)) if "technical" in more else False,
            replica=more["replica"].text("value") if "replica" in more else "",
        )
        if "default" in more:
            self.defaults[name] = more["default"].text("value")

    def placed(self, flag: str, position: str) -> list[str]:
        """List the columns with a flag of the standard, by position, otherwise in the order of the document."""
        flagged = [name for name, each in self.parts.items() if each.value(flag, bool)]
        return sorted(flagged, key=lambda name: self.parts[name].value(position, int, -1))


def _version(stated: str) -> str:
    """Return a version as three numbers; numbers that are left out are 0."""
    found = _VERSION.fullmatch(stated.strip())
    return ".".join(str(int(each or 0)) for each in found.groups()) if found else stated


def _owner(whole: Part) -> str:
    """Return the name of the team, or of the member called owner."""
    try:
        return whole.part("team").text("name")
    except ConfigError:  # before 3.1 a list of members
        members = [each for each in whole.parts("team") if "dateOut" not in each]
    owners = [each for each in members if "owner" in each.value("role", str, "").lower()]
    for each in members:
        each.leave("role")
    return next((each.text("name") or each.text("username") for each in (*owners, *members)), "")


def _sla(whole: Part, table: Part) -> Sla:
    """Return the service level of the table: the first freshness and the first time of availability."""
    found: dict[str, Any] = {}
    for each in whole.parts("slaProperties"):
        name = each.text("property").lower()
        if not _concerns(each, table):
            _leave(each)
        elif name == "freshness" and "fresh_hours" not in found and (hours := _hours(each)):
            found["fresh_hours"] = hours
        elif name == "timeofavailability" and "due" not in found and (due := _due(each)):
            found |= due
        else:
            _leave(each)
    return Sla(**found)


def _leave(stated: Part) -> None:
    for key in ("property", "value", "unit", "element"):
        stated.leave(key)


def _concerns(stated: Part, table: Part) -> bool:
    """Return whether a service level is of the table, by the named elements."""
    named = [each.strip() for each in stated.text("element").split(",") if each.strip()]
    names = {table.text("name"), table.text("physicalName")} - {""}
    return not named or any(each in names or each.rpartition(".")[0] in names or "." not in each for each in named)


def _hours(stated: Part) -> float | None:
    """Return an age in hours; ``None`` for one without a unit, or in a unit of no fixed length."""
    found = _AGE.fullmatch(stated.text("value"))
    unit = (found[2] if found else "") or stated.text("unit")
    factor = _HOURS_OF.get(unit.lower())
    return None if found is None or factor is None else float(found[1]) * factor or None


def _due(stated: Part) -> dict[str, Any] | None:
    """Return a deadline; with an offset, as the same times of day in UTC."""
    found = _CLOCK.fullmatch(stated.text("value").strip())
    if found is None:
        return None
    more = _customs(stated, "zone", "daysAfter", "weekdays")
    due, zone = found[1], more["zone"].text("value") if "zone" in more else "UTC"
    if found[2]:
        clock = time.fromisoformat(f"{due}{found[2].upper().replace('Z', '+00:00')}")
        at = datetime.combine(date(2000, 1, 2), clock)
        due, zone = f"{at.astimezone(timezone.utc):%H:%M}", "UTC"
    days = more["daysAfter"].value("value", int) if "daysAfter" in more else 0
    weekdays = more["weekdays"].value("value", list) if "weekdays" in more else ()
    return {"due": due, "zone": zone, "days_after": days, "weekdays": weekdays}


def _consumers(stated: Part | None) -> Sequence[Consumer]:
    """Return the consumers that this library wrote; none, and the property not read, of another form."""
    if stated is None:
        return ()
    try:
        return [Consumer(**each) for each in stated.value("value", list)]
    except (TypeError, ConfigError):
        stated.leave("property")
        stated.leave("value")
        return ()


def _published_at(whole: Part) -> datetime | None:
    """Return the time of publication in a document, in UTC if the document states no zone."""
    stated = whole.value("contractCreatedTs")
    if not stated:
        return None
    try:
        found = datetime.fromisoformat(str(stated).replace("Z", "+00:00"))
    except ValueError:
        raise ConfigError(f"contractCreatedTs must be a time like 2026-01-05T12:00:00Z, not {stated!r}") from None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _customs(stated: Part, *names: str) -> dict[str, Part]:
    """Return the custom properties of these names; the others are left unread."""
    found = {each.text("property"): each for each in stated.parts("customProperties")}
    for name, each in found.items():
        if name not in names:
            each.leave("property")
    return {name: each for name, each in found.items() if name in names}
