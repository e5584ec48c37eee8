"""Rules of an anonymised column: removal, perturbation, synthetic values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import Use
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey, by_batch, draw, drawn, normalised
from dedp_assets.patterns.core.options import require_types

__all__ = ["SHIFTED", "Perturb", "Replace", "measured"]

SHIFTED = Use(
    lambda kind: isinstance(kind, T.NumericType | T.DateType),
    "has nothing to shift: perturb a number or a DATE, and replace or remove other values",
)
"""For a column that is perturbed."""

_FIRST, _LAST = map(
    str.split,
    (
        (
            "Alex Ana Ben Carla Chen Dana David Elena Emil Fatima Felix Grace Hana Hugo Ines Ivan Jana Jonas Kofi Lea "
            "Liam Lina Luis Maja Marco Mia Milan Nadia Nils Noor Olga Omar Paula Pavel Rosa Ruben Sara Sofia Tomas "
            "Vera Yara Yusuf"
        ),
        (
            "Adler Ahmed Bauer Becker Bianchi Brown Castro Clark Costa Diaz Dubois Evans Ferrari Fischer Garcia Green "
            "Haas Hansen Ito Ivanov Jensen Jones Khan Kim Klein Lang Lee Lopez Martin Meyer Miller Moreau Novak Okafor "
            "Olsen Park Petrov Reyes Rossi Sato Schmidt Silva Smith Tanaka Vogel Wagner Weber White Wong Young Zhang"
        ),
    ),
)
_DOCUMENTED = ("192.0.2", "198.51.100", "203.0.113")  # networks that nobody has (RFC 5737)


def _name(number: int) -> tuple[str, str]:
    rest, first = divmod(number, len(_FIRST))
    return _FIRST[first], _LAST[rest % len(_LAST)]


def _email(number: int) -> str:
    return f"{'.'.join(_name(number)).lower()}{number // 4096 % 1000}@example.org"


def _phone(number: int) -> str:
    return f"+1-{200 + number % 800}-555-01{number // 800 % 100:02}"


def _address(number: int) -> str:
    return f"{_DOCUMENTED[number % len(_DOCUMENTED)]}.{number // len(_DOCUMENTED) % 254 + 1}"


Kind = Literal["name", "email", "phone", "ip"]
_FAKES: Mapping[str, Callable[[int], str]] = {
    "name": lambda number: " ".join(_name(number)),
    "email": _email,
    "phone": _phone,
    "ip": _address,
}


@dataclass(frozen=True, slots=True)
class Perturb:
    """Numbers and dates shifted at random, so that single values are wrong and sums are useful.

    Every shift up to ``within`` is as likely as any other. One value of one person has one shift, so that nobody
    averages it out over several releases of a purpose.

    Attributes:
        within: greatest shift, in the unit of the column; of a DATE in days.
        tolerance: by how much the mean may change, in standard deviations, and the variance, as a share of it.
        changed: least share of values that differ from the original.

    Raises:
        ConfigError: for a shift or a tolerance of 0, which changes nothing, or a share that is none.
    """

    within: float
    tolerance: float
    changed: float = 0.9

    def __post_init__(self) -> None:
        require_types(self)
        for name, value in (("within", self.within), ("tolerance", self.tolerance)):
            if value <= 0:
                raise ConfigError(f"{name} must be above 0, not {value}: values that may not change are no noise")
        if not 0 < self.changed <= 1:
            raise ConfigError(f"changed must be a share above 0 and at most 1, as 0.9, not {self.changed}")
        if self.within > 2**53:
            raise ConfigError(f"within must be at most 2**53, not {self.within}")

    def of(self, value: Column, kind: T.DataType, seed: Column, key: MaskingKey, column: str) -> Column:
        """Return the shifted values, of the column's type; NULL stays NULL.

        Raises:
            ConfigError: if no value of the type is that near.
        """
        number = drawn(F.concat_ws("|", seed, value.cast("string")), key, of=column)
        if isinstance(kind, T.FloatType | T.DoubleType):
            return (value + (number / F.lit(2.0**61) - F.lit(1.0)) * F.lit(float(self.within))).cast(kind)
        scale = kind.scale if isinstance(kind, T.DecimalType) else 0
        steps = int(self.within * 10**scale)
        if not steps or steps > 2**61:
            unit = f"1e-{scale}" if scale else "1"
            raise ConfigError(
                f"within must be at least {unit} for {column}, and no more steps than 2**61, not {self.within}"
            )
        place = number % F.lit(2 * steps) - F.lit(steps)
        shift = F.when(place < 0, place).otherwise(place + 1)  # never 0
        if isinstance(kind, T.DateType):
            return F.date_add(value, shift.cast("int"))
        whole = value if scale or isinstance(kind, T.DecimalType) else value.cast("bigint")
        moved = F.concat(shift.cast("string"), F.lit(f"E-{scale}")).try_cast(T.DecimalType(38, scale))
        moved = moved if isinstance(kind, T.DecimalType) else shift
        # At the end of the type's range there is one direction left.
        return F.coalesce(F.try_add(whole, moved).try_cast(kind), F.try_subtract(whole, moved).try_cast(kind))


@dataclass(frozen=True, slots=True)
class Replace:
    """Invented texts of the same kind; a person has one in each column and purpose, and never the own one.

    Attributes:
        like: what to invent: a ``name``, an ``email``, a ``phone`` or an ``ip`` that belongs to nobody.
        among: texts to take instead, at least two; an original of another person may be one of them.

    Raises:
        ConfigError: with neither or both, or with texts that are all one.
    """

    like: Kind | None = None
    among: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_types(self)
        if (self.like is None) == (not self.among):
            raise ConfigError("like or among must say what to invent, as like='name', and not both or neither")
        if self.among and len({*map(normalised, self.among)}) < 2:
            raise ConfigError("among must have at least two different texts, or everybody has the same")

    def of(self, value: Column, seed: Column, key: MaskingKey, column: str) -> Column:
        """Return the invented texts; NULL stays NULL."""
        fake, among = _FAKES.get(self.like or ""), tuple(self.among)

        def invented(number: int) -> str:
            return fake(number) if fake else among[number % len(among)]

        def replaced(values: list[str | None], seeds: list[str]) -> list[str | None]:
            return [None if v is None else other(v, draw(key, column, s)) for v, s in zip(values, seeds, strict=True)]

        def other(original: str, number: int) -> str:
            found = invented(number)
            while normalised(found) == normalised(original):
                found = invented(number := number + 1)
            return found

        return by_batch(replaced, value, seed)


def measured(value: Column, kind: T.DataType) -> Column:
    """Return a number or a date as a DOUBLE, of a date the days."""
    return (F.unix_date(value) if isinstance(kind, T.DateType) else value).cast("double")
