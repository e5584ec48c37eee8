"""Rules of a pseudonymised column: mask, token, keyed hash, generalization, bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import Column
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import Mask, by_batch, normalised
from dedp_assets.patterns.core.options import require_types

__all__ = ["Bins", "Generalize", "Hash", "Mask", "Token"]


@dataclass(frozen=True, slots=True)
class Token:
    """A random token from the vault, which alone leads back.

    Attributes:
        of: what the values are, as ``email``: a value has one pseudonym there, in every table.
        exact: whether texts that differ by case, by blanks around or by Unicode form alone are different values.
    """

    of: str
    exact: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        _require_said(self.of)


@dataclass(frozen=True, slots=True)
class Hash:
    """A keyed hash (HMAC-SHA-256), by which tables of one purpose join; nothing leads back.

    Attributes:
        of: what the values are, as ``email``: columns with the same values have the same hashes.
        purpose: what the rows are for: hashes of one purpose do not join those of another.
        exact: as of :class:`Token`.
    """

    of: str
    purpose: str
    exact: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        _require_said(self.of)
        if not self.purpose:
            raise ConfigError("purpose must say what the hashes are for, as 'research', not be empty")


@dataclass(frozen=True, slots=True)
class Generalize:
    """A wider term in place of a value, as a region for a country.

    Attributes:
        terms: value -> wider term; values are compared in their normalised form.
        other: term of any value that is not listed.
    """

    terms: Mapping[str, str]
    other: str = "other"

    def __post_init__(self) -> None:
        require_types(self)
        if not self.terms or not self.other:
            raise ConfigError("terms and other must name a term for each value, as {'France': 'Europe'} and 'other'")
        terms: dict[str, str] = {}
        for value, term in self.terms.items():
            if terms.setdefault(normalised(value), term) != term:
                raise ConfigError(f"terms must have one term for {value}, however written, not {term} and another")

    def of(self, value: Column) -> Column:
        """Return the terms; NULL stays NULL."""
        terms, other = {normalised(each): term for each, term in self.terms.items()}, self.other

        def generalized(values: list[str | None]) -> list[str | None]:
            return [None if v is None else terms.get(normalised(v), other) for v in values]

        return by_batch(generalized, value)


@dataclass(frozen=True, slots=True)
class Bins:
    """A range in place of a number: ``< 0``, ``[0, 10)``, ``>= 10`` for the bounds 0 and 10.

    Attributes:
        bounds: where a range ends and the next one begins, in ascending order; a bound is in the range that it begins.
    """

    bounds: Sequence[float]

    def __post_init__(self) -> None:
        require_types(self)
        if not self.bounds or any(low >= high for low, high in pairwise(self.bounds)):
            raise ConfigError(f"bounds must be numbers in ascending order, as [0, 10, 20], not {list(self.bounds)}")

    def of(self, value: Column) -> Column:
        """Return the ranges as texts; NULL and NaN, which are in none, are NULL."""
        # YAML makes 10.0 of 10, which is the same bound.
        bounds = [int(each) if each == int(each) and abs(each) < 2**63 else each for each in self.bounds]
        found = F.when(value.isNull() | F.isnan(value), F.lit(None)).when(value < bounds[0], F.lit(f"< {bounds[0]}"))
        for low, high in pairwise(bounds):
            found = found.when(value < high, F.lit(f"[{low}, {high})"))
        return found.otherwise(F.lit(f">= {bounds[-1]}"))


def _require_said(of: str) -> None:
    if not of:
        raise ConfigError("of must say what the values are, as 'email', not be empty")
