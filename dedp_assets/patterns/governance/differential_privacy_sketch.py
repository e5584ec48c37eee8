"""Differential Privacy Sketch: counts of persons with noise, released once each, within a budget.

Problem: exact counts tell on persons: whoever knows all but one of a group knows the one, and two counts that differ
    by one name somebody.
Solution: a person counts once in a group, and in a bounded number of groups; noise of a scale that follows from
    epsilon hides whether anybody is in the data at all (opendp: the noise is exact). Groups whose noisy count is small
    do not appear. Each release costs its epsilon, which its own commit debits from the table's budget.
Consequences: small counts are useless, large ones hardly change. A released partition stays as it is: to release it
    again would tell more, so it costs again. Once the budget is spent, the table takes no release.
Choose instead: the Pseudo-Anonymizer's ``judge_crowds``, if readers need rows and not counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import IDENTICAL, require_columns, require_free, spelled_as
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.delta import Ledger, Table, Target

__all__ = ["release_counts", "judge_budget"]

dp = optional("opendp.prelude")

_NOTE = "private"
_PLACE, _COUNT = f"{RESERVED}place", f"{RESERVED}count"
_ROUNDING = 1e-9  # of sums of epsilons


@typed
def release_counts(
    rows: DataFrame,
    into: Target,
    *,
    groups: Sequence[str],
    person: str,
    epsilon: float,
    budget: float,
    most_groups: int = 1,
    delta: float = 1e-6,
) -> WriteResult:
    """Release the noisy number of persons of each group, in one commit that debits the budget.

    A rerun returns what was released, also where rows were added since.

    Args:
        rows: the rows, of which each is about a person; those with NULL as person count nowhere.
        into: target of the write: a table with the columns ``groups`` and one more, a BIGINT for the persons; or a
            partition of one.
        groups: columns that tell groups apart, the table's partition columns among them.
        person: column that tells persons apart, of whom the release says nothing.
        epsilon: how much the release may tell on a person; smaller is safer. The noise has the scale ``most_groups /
            epsilon``.
        budget: how much all releases of the table together may tell, of all partitions: a person may be in each.
        most_groups: in how many groups a person counts at most, chosen by hash.
        delta: how likely a group may appear because of one person, at most.

    Returns:
        Scale of the noise, the smallest count that appears, groups that do not, and the epsilon spent so far, in
        ``figures``.

    Raises:
        ConfigError: for bounds that protect nobody, or columns that are not there.
        Conflict: if another release of the table was first: the step is run again, against what is left then.
        ContractError: if what is left of the budget does not suffice; nothing is released.

    Example:
        >>> visits = frame("page STRING, user INT", *[("/a", n) for n in range(90)], ("/a", 1), ("/rare", 900))
        >>> pages = table("pages", "page STRING, persons BIGINT")
        >>> into = pages.target(run)
        >>> release_counts(visits, into, groups=["page"], person="user", epsilon=60, budget=100).figures["spent"]
        60.0
        >>> judge_budget(pages, budget=100).figures["left"]
        40.0
        >>> rows(pages)
        [('/a', 90)]
    """
    into, table = into.by("governance.differential_privacy_sketch", "partition", "audits"), into.table
    noise = _Noise(epsilon, delta, most_groups)
    _require_columns(rows, table, groups, person)
    if budget < epsilon:
        raise ConfigError(f"budget must be at least the epsilon of one release, {epsilon:g}, not {budget:g}")
    newest = table.ensure().version
    place = {name: str(value) for name, value in into.owned.items()}
    if released := _last(table.ledger, place):
        reason = f"{table.name}: released at version {released['version']}: further noise would tell more"
        return WriteResult(
            into.name, newest, applied=False, changed=False, reason=reason, partition=place, figures=released["figures"]
        )
    spent = _spent(table.ledger)
    if spent + epsilon > budget + _ROUNDING:
        raise ContractError(
            f"{table.name}: the budget of {budget:g} has {max(0.0, budget - spent):g} left, and a release costs "
            f"{epsilon:g}: nothing was released; release less often, or raise budget, which tells more on each person"
        )
    shown, hidden = _noisy(rows, table, groups, person, noise)
    figures = {"epsilon": epsilon, "spent": spent + epsilon, "budget": budget, **noise.figures, "groups hidden": hidden}
    noted = into.noting({_NOTE: {"place": place, "figures": figures}})
    # Another release since would have been debited after the budget was read.
    done = noted.stage(shown).publish(since=newest, held={})
    return WriteResult(
        **{**{name: getattr(done, name) for name in done.__slots__}, "figures": {**done.figures, **figures}}
    )


@typed
def judge_budget(table: Table, *, budget: float, warn_left: float = 0) -> Finding:
    """Judge the remaining budget of a table of releases.

    Args:
        table: the table.
        budget: how much all its releases together may tell.
        warn_left: what has to be left, as for the next releases.

    Returns:
        Epsilon spent and left; a warning below ``warn_left``.

    Raises:
        ConfigError: for a negative bound.
        ContractError: if the log that says what was spent is not there any more.
    """
    if budget <= 0 or warn_left < 0:
        raise ConfigError(f"budget and warn_left must be above 0 and not below 0, not {budget:g} and {warn_left:g}")
    spent = _spent(table.ledger) if table.ledger.exists() else 0.0
    left = budget - spent
    note = f"{table.name} has {left:g} left of a budget of {budget:g}, less than {warn_left:g}"
    passed = left + _ROUNDING >= warn_left
    return Finding("budget_is_left", passed, "warn", {"spent": spent, "left": left}, "" if passed else note)


@dataclass(frozen=True, slots=True)
class _Noise:
    """Discrete Laplace noise for counts to which a person contributes once in a bounded number of groups."""

    epsilon: float
    delta: float
    most_groups: int

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise ConfigError(
                f"epsilon must be above 0, as 0.5, not {self.epsilon:g}: noise without bounds tells nothing"
            )
        if not 0 < self.delta < 0.5:
            raise ConfigError(f"delta must be above 0 and below 0.5, as 1e-6, not {self.delta:g}")
        if not 1 <= self.most_groups <= 1000:
            raise ConfigError(f"most_groups must be from 1 to 1,000, not {self.most_groups}")

    @property
    def scale(self) -> float:
        """Scale of the noise, in persons."""
        return self.most_groups / self.epsilon

    @property
    def least(self) -> int:
        """Smallest count that appears; a group of one person reaches the count with probability delta at most."""
        tail = self.most_groups / (self.delta * (1 + math.exp(-1 / self.scale)))
        return 1 + max(1, math.ceil(self.scale * math.log(tail)))

    @property
    def figures(self) -> Mapping[str, float]:
        """Scale, smallest count and delta, by name."""
        return {"scale": self.scale, "least count": self.least, "delta": self.delta}

    def added(self, counts: Sequence[int]) -> list[int]:
        """Return the counts with noise of their own each."""
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
        measured = dp.m.make_laplace(*space, scale=self.scale)
        if measured.map(self.most_groups) > self.epsilon * (1 + 1e-6):
            raise ContractError(
                f"noise of scale {self.scale:g} costs {measured.map(self.most_groups)} and not {self.epsilon}"
            )
        return list(measured(list(counts))) if counts else []


def _require_columns(rows: DataFrame, table: Table, groups: Sequence[str], person: str) -> None:
    require_distinct("groups and person", [*groups, person])
    if not groups or not person:
        raise ConfigError("groups and person must name columns, as groups=['page'] and person='user', not be empty")
    require_columns(require_free(rows), [*groups, person], IDENTICAL)
    _counted(table, groups)


def _counted(table: Table, groups: Sequence[str]) -> str:
    """Return the column of the table that holds the counts: the only one that is no group."""
    taken = {name.lower() for name in groups}
    others = [name for name in table.spec.columns if name.lower() not in taken]
    if len(others) != 1 or len(table.spec.columns) != len(taken) + 1 or table.spec.columns[others[0]].type != "BIGINT":
        raise ConfigError(
            f"{table.name} must declare the columns of groups and one BIGINT for the persons, not "
            f"{', '.join(table.spec.columns)}"
        )
    return others[0]


def _noisy(rows: DataFrame, table: Table, groups: Sequence[str], person: str, noise: _Noise) -> tuple[DataFrame, int]:
    """Return the groups with noisy counts that are large enough, and the number of others."""
    named = [F.col(identifier(c)) for c in spelled_as(rows.columns, groups)]
    who = F.col(identifier(person))
    each = rows.where(who.isNotNull()).select(who.alias(_COUNT), *named).distinct()
    # The same groups of a person in every run, and no matter how often the person was there.
    order = Window.partitionBy(_COUNT).orderBy(F.xxhash64(F.col(_COUNT), *named), *named)
    bounded = each.withColumn(_PLACE, F.row_number().over(order)).where(F.col(_PLACE) <= noise.most_groups)
    counted = bounded.groupBy(*named).agg(F.count("*").alias(_COUNT))
    found = counted.collect()
    noisy = noise.added([row[_COUNT] for row in found])
    shown = [(*row[:-1], count) for row, count in zip(found, noisy, strict=True) if count >= noise.least]
    made = rows.sparkSession.createDataFrame(shown, counted.schema)
    names = [*spelled_as(table.spec.columns, groups), _counted(table, groups)]
    by_name = {n: F.col(identifier(c)).alias(n) for c, n in zip(counted.columns, names, strict=True)}
    return made.select(*[by_name[name] for name in table.spec.columns]), len(found) - len(shown)


def _last(ledger: Ledger, place: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the release of a partition, with the version; ``None`` before a release."""
    found = ledger.last(
        lambda c: c.record and c.record.notes.get(_NOTE, {}).get("place") == place,
        past_restores=True,  # what a RESTORE took back is not there to be returned
    )
    return {**found.record.notes[_NOTE], "version": found.version} if found and found.record else None


def _spent(ledger: Ledger) -> float:
    """Return the epsilon of all releases, which the last one states."""
    # What was told stays told, also after the table was restored to an older version.
    last = ledger.last(lambda commit: commit.record and _NOTE in commit.record.notes)
    if last and last.record:
        return float(last.record.notes[_NOTE]["figures"]["spent"])
    if (begin := ledger.files.tells_from()) > 0:
        raise ContractError(
            f"{ledger.name}: the log before version {begin} is gone, and with it what was spent of the "
            "budget: nothing was released; keep the log for as long as releases count, by delta.logRetentionDuration"
        )
    return 0.0
