"""Rules of quality in a document of the Open Data Contract Standard: bounds, predicates, words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.governance._contracts import Quality
from dedp_assets.patterns.governance._parts import Part

__all__ = ["PREDICATE", "RulesRead"]

PREDICATE = "predicate"
"""Custom property of a rule in SQL with the predicate that every row satisfies."""
_OPERATORS = (
    "mustBe", "mustNotBe", "mustBeGreaterThan", "mustBeGreaterOrEqualTo", "mustBeLessThan", "mustBeLessOrEqualTo",
    "mustBeBetween", "mustNotBeBetween",
)  # fmt: skip
_SAID = ("type", "metric", "rule", "unit", "arguments", "query", "engine", "implementation", *_OPERATORS)
"""Keys of a rule that its words repeat."""
_LIMITS = {
    "minimum": "{} >= {}", "maximum": "{} <= {}", "exclusiveMinimum": "{} > {}", "exclusiveMaximum": "{} < {}",
    "multipleOf": "{} % {} = 0", "minLength": "length({}) >= {}", "maxLength": "length({}) <= {}",
    "pattern": "{} RLIKE {}", "minItems": "size({}) >= {}", "maxItems": "size({}) <= {}",
}  # fmt: skip
"""Option of a logical type -> SQL predicate of a column and the option's value."""
_ALWAYS = 1.0


@dataclass
class RulesRead:
    """Rules of a table that were read so far; :class:`Quality` names the attributes."""

    checks: dict[str, str] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)
    null_shares: dict[str, float] = field(default_factory=dict)
    allowed: dict[str, list[str]] = field(default_factory=dict)
    least: int | None = None
    most: int | None = None

    def quality(self) -> Quality:
        """Return the rules as promises of a contract."""
        return Quality(
            checks=self.checks,
            rules=self.rules,
            null_shares=self.null_shares,
            allowed=self.allowed,
            daily_rows_min=self.least,
            daily_rows_max=self.most,
        )

    def read(self, stated: Sequence[Part], column: str = "") -> None:
        """Read the rules of a table, or of a column."""
        for each in stated:
            metric = each.text("metric") or each.text("rule")
            known = {"rowCount": self._rows, "nullValues": self._nulls, "invalidValues": self._values}.get(metric)
            if not (known and known(each, column)) and not self._predicate(each):
                self._words(each, column)
            each.take("name", "description", "dimension", "unit")

    def read_column(self, name: str, column: Column, stated: Part) -> None:
        """Read the rules that stand at a column: limits of the type, allowed values, and rules of quality."""
        options = stated.part("logicalTypeOptions")
        for option, predicate in _LIMITS.items():
            if option in options and not (option == "maxLength" and column.type == f"VARCHAR({options.value(option)})"):
                limit = predicate.format(identifier(name), _limit(options, option))
                self.checks[_free(self.checks, f"{name}_{option}")] = f"{identifier(name)} IS NULL OR {limit}"
        if stated.value("unique", bool):
            self.rules[_free(self.rules, f"{name}_unique")] = f"no value of {name} comes twice"
        plain = not all(isinstance(each, dict) for each in stated.value("enum", list, []))
        self._allow(name, stated.value("enum") if plain else [each.value("value") for each in stated.parts("enum")])
        self.read(stated.parts("quality"), name)

    def _rows(self, stated: Part, column: str) -> bool:
        bounds = _bounds(stated)
        if column or bounds is None or stated.text("unit") not in ("", "rows"):
            return False
        low, high = bounds
        self.least = max((each for each in (self.least, low) if each is not None), default=None)
        self.most = min((each for each in (self.most, high) if each is not None), default=None)
        return True

    def _nulls(self, stated: Part, column: str) -> bool:
        """Read the greatest share of missing values; a share below a bound, or a number of rows, is words."""
        percent = stated.text("unit") == "percent"
        most = _greatest(stated) if percent else 0 if (_bounds(stated) or (0, 1))[1] == 0 else None
        if not column or most is None or not 0 <= most <= 100:
            return False
        share = float(Decimal(str(most)) / 100)
        self.null_shares[column] = min(share, self.null_shares.get(column, _ALWAYS))
        return True

    def _values(self, stated: Part, column: str) -> bool:
        arguments = stated.value("arguments", dict, {})
        exact = arguments.keys() == {"validValues"} and isinstance(arguments["validValues"], list)
        if not column or not exact or _greatest(stated) != 0:
            return False
        self._allow(column, arguments["validValues"])
        return True

    def _allow(self, column: str, values: Sequence[Any]) -> None:
        texts = [_text(each) for each in values if each is not None]
        before = self.allowed.get(column, texts)
        if found := [each for each in dict.fromkeys(texts) if each in before]:
            self.allowed[column] = found

    def _predicate(self, stated: Part) -> bool:
        found = [each for each in stated.parts("customProperties") if each.text("property") == PREDICATE]
        if stated.text("type") != "sql" or not found:
            return False
        self.checks[_free(self.checks, stated.text("name"))] = found[0].text("value")
        stated.take(*_SAID)
        return True

    def _words(self, stated: Part, column: str) -> None:
        """Keep a rule that is no bound or predicate of a contract as a rule in words."""
        keys = {key: stated.value(key) for key in _SAID if key in stated and key != "type"}
        words = "; ".join(f"{key} {each if isinstance(each, str) else json.dumps(each)}" for key, each in keys.items())
        metric = stated.text("metric") or stated.text("rule") or stated.text("type") or "rule"
        name = stated.text("name") or (f"{column}_{metric}" if column else metric)
        text = stated.text("description") if stated.text("type") == "text" and not words else words
        self.rules[_free(self.rules, name)] = text or stated.text("description")


def _bounds(stated: Part) -> tuple[int | None, int | None] | None:
    """Return the whole numbers that a rule allows, both ends included; ``None`` for another rule."""
    named = [each for each in _OPERATORS if each in stated]
    value: Any = stated.value(named[0]) if len(named) == 1 else None
    if named == ["mustBeBetween"] and isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)):
        return math.ceil(value[0]), math.floor(value[1])
    if not _is_number(value):
        return None
    found = {
        "mustBe": (math.ceil(value), math.floor(value)),
        "mustBeGreaterThan": (math.floor(value) + 1, None),
        "mustBeGreaterOrEqualTo": (math.ceil(value), None),
        "mustBeLessThan": (None, math.ceil(value) - 1),
        "mustBeLessOrEqualTo": (None, math.floor(value)),
    }
    return found.get(named[0])


def _greatest(stated: Part) -> float | None:
    """Return the greatest value that a rule allows, where 0 is the least; ``None`` for another rule."""
    match stated.value("mustBeBetween"):
        case [0, most] if _is_number(most):
            return float(most)
        case list():
            return None
    exact = stated.value("mustBe")
    found = 0 if exact == 0 and _is_number(exact) else stated.value("mustBeLessOrEqualTo")
    return found if _is_number(found) else None


def _is_number(value: object) -> bool:
    # Compared, as a whole number of JSON may be too large for a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _limit(options: Part, option: str) -> str:
    """Return the SQL literal of a type's limit.

    Raises:
        ConfigError: for a value that no column is compared with.
    """
    value = options.value(option, (int, float, str, date))
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{options.path}.{option} must be a finite number, not {value}")
    return str(value) if _is_number(value) else quoted(str(value))


def _free(known: dict[str, str], name: str) -> str:
    """Return a name, with a number behind a name that is taken."""
    number, found = 1, name
    while found in known:
        number, found = number + 1, f"{name}_{number + 1}"
    return found
