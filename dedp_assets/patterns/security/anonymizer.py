"""Anonymizer: rows leave without anything that leads to a person, useful in sum.

Problem: partners and researchers want real rows, and may learn nothing about any one person in them.
Solution: a column is removed, perturbed within bounds, or replaced by invented values. Noise and inventions are drawn
    from a keyed hash of person, column and purpose: a rerun gives the same rows, on any executor, and nobody without
    the key gets back. Every column has a rule or is named as kept. What was lost is measured.
Consequences: rows of one person still have the same inventions within a purpose; releases of two purposes do not meet.
    Noise costs precision: a tolerance says how much, and the judgement holds the rows against it. Kept columns can
    still tell somebody apart: judge the release by the Pseudo-Anonymizer's ``judge_crowds``.
Choose instead: Pseudo-Anonymizer, if rows of several tables have to be joined, or a value has to come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import TEXT, fields_of, require_columns, require_rows, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import key_of
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.security._anonymous_rules import SHIFTED, Perturb, Replace, measured
from dedp_assets.patterns.security._releases import Remove, replaced

__all__ = ["anonymize", "judge_utility", "Remove", "Perturb", "Replace"]

Rule = Remove | Perturb | Replace
Made = Callable[[str, Rule], Column | None]
_WAS, _IS = f"{RESERVED}was", f"{RESERVED}is"


@typed
def anonymize(
    rows: DataFrame,
    key: MaskingKey,
    *,
    rules: Mapping[str, Remove | Perturb | Replace],
    identity: Sequence[str],
    purpose: str,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Remove, perturb or replace the values of columns; lazy.

    NULL stays NULL. A text that is no valid one of its kind is replaced as any other.

    Args:
        rows: the rows, a batch.
        key: the key of the draws. Who has key and identities can draw again: the key stays with the originals.
        rules: column -> what is done with its values.
        identity: columns that tell persons apart, for the draws; they leave only if they are kept.
        purpose: what the rows are for, such as ``partners``: for another purpose everything is drawn anew.
        keep: columns that leave as they are: what is neither here nor in ``rules`` is refused.

    Returns:
        The rows, without the removed columns.

    Raises:
        ConfigError: for a column without a rule, or a rule that its type does not allow, as noise on a text.

    Example:
        >>> from dedp_assets.patterns.core.masking import MaskingKey
        >>> key = MaskingKey("home", b"32 random bytes, which these are not")
        >>> users = frame("id INT, name STRING, ssn STRING, age INT", (1, "Ada", "1", 30), (2, "Bob", "2", 41))
        >>> age = Perturb(within=3, tolerance=0.5)
        >>> rules = {"id": Remove(), "name": Replace(like="name"), "ssn": Remove(), "age": age}
        >>> found = anonymize(users, key, rules=rules, identity=["id"], purpose="partners")
        >>> found.columns
        ['name', 'age']
        >>> {"Ada", "Bob"} & {row["name"] for row in found.collect()}
        set()
    """
    made = _values(rows, identity, key, purpose)
    return replaced(rows, rules, keep, made)


@typed
def judge_utility(
    rows: DataFrame,
    key: MaskingKey,
    *,
    rules: Mapping[str, Remove | Perturb | Replace],
    identity: Sequence[str],
    purpose: str,
    name: str = "the_release_is_useful",
) -> Finding:
    """Judge the effect of :func:`anonymize`: mean, variance and share of changed values, in one pass.

    Args:
        rows: the rows, before.
        key: as there.
        rules: as there.
        identity: as there.
        purpose: as there.
        name: name of the finding.

    Returns:
        For each perturbed column mean and variance before and after, the greatest shift and the share of changed
        values, against the rule; for each replaced one the values that are still the original.

    Raises:
        ConfigError: as there.
    """
    pairs = list(_pairs(rows, rules, _values(rows, identity, key, purpose)))
    if not pairs:
        raise ConfigError("rules must perturb or replace a column, or there is nothing to judge, not only remove some")
    both = rows.select(*[each for pair in pairs for each in pair[2:]])
    found = both.agg(*[each for n, (_, rule, *_) in enumerate(pairs) for each in _measures(n, rule)]).collect()[0]
    figures, faults = dict[str, Any](), list[str]()
    for n, (column, rule, *_) in enumerate(pairs):
        measured_here = {key: value for key, value in found.asDict().items() if key.startswith(f"{n} ")}
        of_column = {f"{column}: {key.partition(' ')[2]}": value for key, value in measured_here.items()}
        figures |= of_column
        faults += [f"{column} {fault}" for fault in _faults(rule, *measured_here.values())]
    return Finding(name, passed=not faults, figures=figures, note="; ".join(faults))


def _values(rows: DataFrame, identity: Sequence[str], key: MaskingKey, purpose: str) -> Made:
    """Return the function that makes the values of a column by a rule; a removed one has none."""
    require_columns(require_rows("this pattern", rows), identity)
    if not identity or not purpose:
        raise ConfigError("identity and purpose must name what draws are for, as identity=['id'], not be empty")
    seed = F.expr(key_of(rows, [identifier(c) for c in spelled_as(rows.columns, identity)]))

    def made(column: str, rule: Rule) -> Column | None:
        if isinstance(rule, Remove):
            return None
        require_columns(rows, [column], SHIFTED if isinstance(rule, Perturb) else TEXT)
        value, of = F.col(identifier(column)), column.lower()
        if isinstance(rule, Replace):
            return rule.of(value, seed, key.of(purpose), of)
        return rule.of(value, fields_of(rows, [column])[0].dataType, seed, key.of(purpose), of)

    return made


def _pairs(rows: DataFrame, rules: Mapping[str, Rule], made: Made) -> Iterator[tuple[str, Any, Column, Column]]:
    """Yield each judged column with the rule, and the values before and after."""
    require_columns(rows, rules)
    for n, (column, rule) in enumerate((c, r) for c, r in rules.items() if not isinstance(r, Remove)):
        kind, value = fields_of(rows, [column])[0].dataType, made(column, rule)
        values = [F.col(identifier(column)), *([] if value is None else [value])]
        was, now = (measured(each, kind) if isinstance(rule, Perturb) else each for each in values)
        yield column, rule, was.alias(f"{_WAS}{n}"), now.alias(f"{_IS}{n}")


def _measures(n: int, rule: Rule) -> Iterator[Column]:
    was, now = f"{_WAS}{n}", f"{_IS}{n}"
    if isinstance(rule, Replace):
        yield F.count_if(F.col(was) == F.col(now)).alias(f"{n} values as before")
        return
    for what, column in (("before", was), ("after", now)):
        yield F.mean(column).alias(f"{n} mean {what}")
        yield F.var_pop(column).alias(f"{n} variance {what}")
    yield F.max(F.abs(F.col(now) - F.col(was))).alias(f"{n} greatest shift")
    yield F.mean((F.col(now) != F.col(was)).cast("double")).alias(f"{n} share changed")


def _faults(rule: Any, *found: Any) -> Iterator[str]:  # noqa: ANN401 - one of the rules, and figures
    """Yield the faults of the figures of a column; a column without values has none."""
    if isinstance(rule, Replace):
        if found[0]:
            yield f"has {found[0]} values as before, and must have none"
        return
    mean, variance, new_mean, new_variance, shift, changed = found
    if mean is None:
        return
    if abs(new_mean - mean) > rule.tolerance * variance**0.5:
        yield f"has a mean that changed from {mean:g} to {new_mean:g}, by over {rule.tolerance:g} standard deviations"
    if abs(new_variance - variance) > rule.tolerance * variance:
        yield f"has a variance that changed from {variance:g} to {new_variance:g}, by over {rule.tolerance:g} of it"
    if changed < rule.changed:
        yield f"has a share of changed values of {changed:.3f}, and must have {rule.changed:g}: widen within"
    if shift > rule.within * (1 + 1e-9):
        yield f"has a shift of {shift:g}, beyond {rule.within:g}"
