"""Differences of two contracts, each with the broken side: consumers or the producer.

A looser promise breaks consumers: they get what they were not told of. A tighter one breaks the producer, who has to
deliver more than before. What is neither looser nor tighter, such as another text of a rule, breaks both. A further
allowed value is looser: a consumer that enumerates the values does not know it. One less is tighter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal

from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types.ddl import field
from dedp_assets.patterns.core.types.nesting import Kind, outer
from dedp_assets.patterns.core.types.schema_changes import sized_type
from dedp_assets.patterns.core.types.widening import is_widening
from dedp_assets.patterns.governance._allowed import with_allowed
from dedp_assets.patterns.governance._contracts import Contract, Sla, respelled

__all__ = ["Difference", "Perspective", "compare_types", "differences"]

Perspective = Literal["consumer", "producer"]
"""The side for which a change is judged."""
_NOBODY: tuple[Perspective, ...] = ()
_CONSUMER: tuple[Perspective, ...] = ("consumer",)
_PRODUCER: tuple[Perspective, ...] = ("producer",)
_BOTH: tuple[Perspective, ...] = ("consumer", "producer")

Fits = Callable[[Kind, Kind], bool]
"""Rule that a scalar type does for another one."""
_TAKEN: Fits = partial(is_widening, use="contract")


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two versions of a contract.

    Attributes:
        path: place of the difference, such as ``columns.page`` or ``sla.fresh_hours``.
        sentence: the change.
        breaks: sides that the change breaks; none for a compatible change.
        columns: columns whose readers are concerned; none for all readers.
        promise: whether a promise changes, and not words alone.
    """

    path: str
    sentence: str
    breaks: tuple[Perspective, ...] = ()
    columns: tuple[str, ...] = ()
    promise: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"


def differences(old: Contract, new: Contract) -> tuple[Difference, ...]:
    """List the differences of two contracts, in the order of a document. Consumers are no promise.

    Args:
        old: the published contract.
        new: the contract that would replace the published one.
    """
    old, new = with_allowed(old), with_allowed(new)
    # Readers find a column whatever its case, as Spark and Delta do.
    same = replace(new, columns=respelled(old.columns, new.columns))
    found = chain(_of_table(old, same), _of_columns(old, same), _of_quality(old, same), _of_sla(old.sla, new.sla))
    return (*_of_spelling(same, new), *found)


def compare_types(path: str, old: str, new: str, fits: Fits = _TAKEN) -> Iterator[Difference]:
    """Yield the differences of two SQL types, nested types by their fields; spelling is no difference.

    Args:
        path: place of the type.
        old: the type as it is.
        new: the type as it would be.
        fits: whether another scalar type does for the old one.
    """
    one, other = (field("value", each) for each in (old, new))
    if one is None or other is None:  # only Spark can read one of them
        if _plain(old) != _plain(new):
            yield Difference(path, f"type is {new}, was {old}", _BOTH)
        return
    yield from _types(path, sized_type(one), sized_type(other), fits)


def _of_table(old: Contract, new: Contract) -> Iterator[Difference]:
    if new.name != old.name:
        yield Difference("name", f"the table is {new.name}, was {old.name}", _CONSUMER)
    if new.owner != old.owner:
        yield Difference("owner", f"the owner is {new.owner}, was {old.owner}", promise=False)
    if new.comment != old.comment:
        yield Difference("comment", "the meaning of a row is described in other words", promise=False)
    # No peer calls this breaking. In a lake, a reader of single partitions names the column in its filter or path.
    if new.partition_by != old.partition_by:
        sentence = f"partitioned by {_named(new.partition_by)}, was by {_named(old.partition_by)}"
        yield Difference("partition_by", sentence, _CONSUMER)
    if new.key != old.key:
        sentence = f"rows are told apart by {_named(new.key)}, was by {_named(old.key)}"
        yield Difference("key", sentence, _PRODUCER if not old.key else _CONSUMER if not new.key else _BOTH)
    yield from _number("notice_days", "days of notice", old.notice_days, new.notice_days, more_is_looser=False)


def _of_spelling(same: Contract, new: Contract) -> Iterator[Difference]:
    for name, now in zip(same.columns, new.columns, strict=True):
        if name != now:
            yield Difference(f"columns.{name}", f"{name} is spelt {now} now", columns=(name,), promise=False)


def _of_columns(old: Contract, new: Contract) -> Iterator[Difference]:
    added = {name: column for name, column in new.columns.items() if name not in old.columns}
    for name, column in old.columns.items():
        path = f"columns.{name}"
        if name not in new.columns:
            renamed = _renamed(column, added)
            hint = f": perhaps {renamed} is its new name" if renamed else ""
            yield Difference(path, f"column {name} is gone{hint}", _CONSUMER, (name,))
        else:
            yield from (_about(name, each) for each in compare_types(path, column.type, new.columns[name].type))
            yield from _of_column(path, name, column, new.columns[name], default=name in new.defaults)
    for name, column in added.items():
        bare = column.required and name not in new.defaults
        what = "a required column without a default" if bare else "a column"
        yield Difference(f"columns.{name}", f"{what} is added: {name} {column.type}", _PRODUCER if bare else _NOBODY)
    for name in old.columns:
        if name in new.columns and old.defaults.get(name) != new.defaults.get(name):
            path, shown = f"columns.{name}.default", new.defaults.get(name, "none")
            lost = new.columns[name].required and name not in new.defaults
            yield Difference(path, f"the default is {shown}", _PRODUCER if lost else _NOBODY, (name,))


def _of_column(path: str, name: str, old: Column, new: Column, *, default: bool) -> Iterator[Difference]:
    if old.required and not new.required:
        yield Difference(f"{path}.required", f"{name} may be NULL now", _CONSUMER, (name,))
    if new.required and not old.required:
        breaks = _NOBODY if default else _PRODUCER
        yield Difference(f"{path}.required", f"{name} must not be NULL any more", breaks, (name,))
    if old.classification != new.classification:
        was, now = (each or "of no class" for each in (old.classification, new.classification))
        yield Difference(f"{path}.classification", f"{name} is {now} now, was {was}", columns=(name,))
    if old.purpose != new.purpose:
        sentence = f"{name} may be used for {', '.join(new.purpose) or 'no stated purpose'} now"
        yield Difference(f"{path}.purpose", sentence, columns=(name,))
    if old.comment != new.comment:
        yield Difference(f"{path}.comment", f"{name} is described in other words", columns=(name,), promise=False)


def _types(path: str, old: Kind, new: Kind, fits: Fits) -> Iterator[Difference]:
    if isinstance(old, str) or outer(old) != outer(new):
        if old != new:
            sentence = f"type is {outer(new)}, was {outer(old)}"
            yield Difference(path, sentence, _NOBODY if fits(old, new) else _BOTH)
    elif outer(old) == "struct":
        was, now = ({each["name"]: each for each in kind["fields"]} for kind in (old, new))
        yield from _fields(path, was, now, fits)
    else:
        for part, mark in (("elementType", "[]"), ("keyType", "{key}"), ("valueType", "{value}")):
            if part in old:
                yield from _types(path + mark, old[part], new[part], fits)


def _fields(path: str, old: Mapping[str, Any], new: Mapping[str, Any], fits: Fits) -> Iterator[Difference]:
    """Yield the differences of the fields of a struct; case is no difference."""
    new = respelled(old, new)
    for name, was in old.items():
        place = f"{path}.{name}"
        if (now := new.get(name)) is None:
            yield Difference(place, "the field is gone", _CONSUMER)
            continue
        yield from _types(place, was["type"], now["type"], fits)
        if was["nullable"] != now["nullable"]:
            sentence = "the field may be NULL now" if now["nullable"] else "the field must not be NULL any more"
            yield Difference(place, sentence, _CONSUMER if now["nullable"] else _PRODUCER)
    for name in [each for each in new if each not in old]:
        required = not new[name]["nullable"]
        yield Difference(f"{path}.{name}", "a field is added", _PRODUCER if required else _NOBODY)


def _of_quality(old: Contract, new: Contract) -> Iterator[Difference]:
    one, other = old.quality, new.quality
    yield from _texts("quality.checks", "check", one.checks, other.checks)
    yield from _texts("quality.rules", "rule", one.rules, other.rules)
    for name in _kept(one.null_shares, other.null_shares, new):
        path, label = f"quality.null_shares.{name}", f"share of missing values of {name}"
        shares = one.null_shares.get(name), other.null_shares.get(name)
        yield from _number(path, label, *shares, more_is_looser=True, columns=(name,))
    for name in _kept(one.allowed, other.allowed, new):
        yield from _values(name, one.allowed.get(name), other.allowed.get(name))
    for bound, looser in (("daily_rows_min", False), ("daily_rows_max", True)):
        values = getattr(one, bound), getattr(other, bound)
        yield from _number(f"quality.{bound}", bound.replace("_", " "), *values, more_is_looser=looser)


def _values(name: str, old: Collection[str] | None, new: Collection[str] | None) -> Iterator[Difference]:
    """Yield the differences of the allowed values of a column."""
    path = f"quality.allowed.{name}"
    if old is None and new is not None:
        yield Difference(path, f"{name} has allowed values now: {', '.join(new)}", _PRODUCER, (name,))
    if old is not None and new is None:
        yield Difference(path, f"{name} may have any value", _CONSUMER, (name,))
    if old is not None and new is not None:
        if added := [each for each in new if each not in old]:
            yield Difference(path, f"{name} may also be {', '.join(added)}", _CONSUMER, (name,))
        if removed := [each for each in old if each not in new]:
            yield Difference(path, f"{name} must not be {', '.join(removed)} any more", _PRODUCER, (name,))


def _of_sla(old: Sla, new: Sla) -> Iterator[Difference]:
    yield from _number("sla.fresh_hours", "hours of freshness", old.fresh_hours, new.fresh_hours, more_is_looser=True)
    one, other = ((each.days_after, each.due, each.zone, each.weekdays) if each.due else None for each in (old, new))
    if one == other:
        return
    if one is None or other is None:
        sentence = f"due at {new.due} now" if new.due else f"no longer due, was at {old.due}"
        yield Difference("sla.due", sentence, _PRODUCER if new.due else _CONSUMER)
        return
    same_calendar = one[2:] == other[2:]
    breaks = _BOTH if not same_calendar else _CONSUMER if other[:2] > one[:2] else _PRODUCER
    yield Difference("sla.due", f"due {new.deadline}, was {old.deadline}", breaks)


def _number(
    path: str,
    label: str,
    old: float | None,
    new: float | None,
    *,
    more_is_looser: bool,
    columns: tuple[str, ...] = (),
) -> Iterator[Difference]:
    """Yield the difference of a bound; a bound that is gone is looser, a new one tighter."""
    if old == new:
        return
    if new is None:
        breaks, sentence = _CONSUMER, f"no longer promised, was {quantity(old or 0)}"
    elif old is None:
        breaks, sentence = _PRODUCER, f"promised now, {quantity(new)}"
    else:
        breaks = _CONSUMER if (new > old) == more_is_looser else _PRODUCER
        sentence = f"{quantity(new)}, was {quantity(old)}"
    yield Difference(path, f"{label}: {sentence}", breaks, columns)


def _texts(path: str, what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
    """Yield the differences of rules that are texts."""
    for name in dict.fromkeys([*old, *new]):
        place = f"{path}.{name}"
        if name not in new:
            yield Difference(place, f"{what} {name} is gone", _CONSUMER)
        elif name not in old:
            yield Difference(place, f"{what} {name} is added", _PRODUCER)
        elif _words(old[name]) != _words(new[name]):
            yield Difference(place, f"{what} {name} is another one: {new[name]}, was {old[name]}", _BOTH)


def _about(name: str, found: Difference) -> Difference:
    """Return a difference inside a column, concerning the readers of the column or of the field."""
    inner = re.split(r"\[|\{", found.path.removeprefix("columns."))[0]
    return Difference(found.path, f"{name}: {found.sentence}", found.breaks, (inner,))


def _kept(old: Iterable[str], new: Iterable[str], contract: Contract) -> list[str]:
    """List the columns of a rule without removed columns."""
    return [name for name in dict.fromkeys([*old, *new]) if name in contract.columns]


def _renamed(column: Column, added: Mapping[str, Column]) -> str:
    """Return the only new column with the same type and words; empty without one."""
    alike = [n for n, each in added.items() if each.type == column.type and each.comment == column.comment]
    return alike[0] if len(alike) == 1 else ""


def _named(columns: Collection[str]) -> str:
    return ", ".join(columns) or "nothing"


def _words(text: str) -> str:
    return " ".join(text.split())


def _plain(kind: str) -> str:
    return _words(kind).upper()
