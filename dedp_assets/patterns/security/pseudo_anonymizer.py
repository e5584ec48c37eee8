"""Pseudo-Anonymizer: values that point to persons are replaced, and rows still join.

Problem: analysts need to know that two visits are of one user of thirty years in Paris, and not who that is.
Solution: each column gets a rule: a mask, a token whose value a vault knows, a keyed hash for joins, a wider term, a
    range. Every column has one or is named as kept, so that a new one does not leave by itself. Then the release is
    judged: groups of fewer than k persons that nobody can tell apart refuse it, or are left out, also beside what was
    released before.
Consequences: a pseudonym is personal data. Whoever knows enough harmless facts of somebody finds the row, which k
    makes rare and not impossible; facts that no column of ``quasi`` names are not judged.
Choose instead: Anonymizer, if nobody needs to follow a person; Encryptor, if the holder of a key needs the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import NAMED, TEXT, Use, require_columns, require_rows, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey, pseudonym
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.security._pseudonym_rules import Bins, Generalize, Hash, Mask, Token
from dedp_assets.patterns.security._releases import Crowd, Linked, Remove, replaced
from dedp_assets.patterns.security._token_vault import TokenVault, token_of

__all__ = ["pseudonymize", "judge_crowds", "leave_out_few", "Mask", "Token", "Hash", "Generalize", "Bins", "TokenVault"]

_NUMBER = Use(lambda kind: isinstance(kind, T.NumericType), "is no number: give it another rule than bins")
_MASKED = Use(TEXT.fits, "is no text, and a mask of a number is a number to guess: give it a hash, a token or bins")


@typed
def pseudonymize(
    rows: DataFrame,
    key: MaskingKey | None = None,
    vault: TokenVault | None = None,
    *,
    rules: Mapping[str, Mask | Token | Hash | Generalize | Bins | Remove],
    keep: Sequence[str] = (),
) -> DataFrame:
    """Replace the values of columns by pseudonyms, wider terms and ranges; lazy.

    NULL stays NULL. Equal values have equal tokens and hashes in every run and table.

    Args:
        rows: the rows, a batch.
        key: the key of the hashes; each purpose has one of its own, derived from it.
        vault: the tokens and their values, if a rule is a :class:`Token`.
        rules: column -> what is done with its values: the result is a text; a removed column does not leave.
        keep: columns that leave as they are: what is neither here nor in ``rules`` is refused.

    Returns:
        The same rows, without removed columns.

    Raises:
        ConfigError: for a column without a rule, a rule that its type does not allow, as a mask of a number, and a
            missing key or vault.

    Example:
        >>> from dedp_assets.patterns.core.masking import MaskingKey
        >>> users = frame("ssn STRING, country STRING, pay INT", ("123-45-6789", "France", 900), ("n/a", "Mars", None))
        >>> rules = {"ssn": Mask("999-99-9999"), "country": Generalize({"France": "Europe"}), "pay": Bins([500, 1000])}
        >>> rows(pseudonymize(users, rules=rules))
        [('XXX-XX-6789', 'Europe', '[500, 1000)'), ('XXX-XX-XXXX', 'other', None)]
        >>> found = pseudonymize(users, rules={**rules, "ssn": Hash(of="ssn", purpose="research")})
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: key must be given for the hash of ssn, not None
    """

    def made(column: str, rule: Any) -> Column | None:  # noqa: ANN401 - one of the rules
        if isinstance(rule, Remove):
            return None
        if isinstance(rule, Hash):
            require_columns(rows, [column], NAMED)
            if key is None:
                raise ConfigError(f"key must be given for the hash of {column}, not None")
            return pseudonym(column, key.of(rule.purpose), of=rule.of, exact=rule.exact)
        if isinstance(rule, Token):
            require_columns(rows, [column], NAMED)
            if vault is None:
                raise ConfigError(f"vault must be given for the tokens of {column}, not None")
            return token_of(column, vault, of=rule.of, exact=rule.exact)
        require_columns(
            rows, [column], _MASKED if isinstance(rule, Mask) else _NUMBER if isinstance(rule, Bins) else TEXT
        )
        return rule.of(F.col(identifier(column)))  # type: ignore[no-any-return]

    return replaced(rows, rules, keep, made)


@typed
def judge_crowds(
    release: DataFrame,
    others: Mapping[str, DataFrame] | None = None,
    *,
    quasi: Sequence[str],
    k: int,
    person: str = "",
    sensitive: Sequence[str] = (),
    diversity: int = 1,
    name: str = "nobody_is_alone",
) -> Finding:
    """Judge the k-anonymity of a release, alone and joined with earlier releases.

    Persons are told apart by the set of all combinations of quasi-identifiers that the releases together have of each
    (k-anonymity of the join); with sensitive columns, each group has several values (l-diversity).

    Args:
        release: the rows that are to be released.
        others: what was released before to the same readers, by name, with the same pseudonyms.
        quasi: columns by which somebody who knows a person finds the person; of ``others`` those that they have.
        k: fewest persons of a group, at least 2.
        person: column of the pseudonym, by which rows of a person belong together; empty if each row is a person.
        sensitive: columns of the release whose value nobody may conclude for a person, as a diagnosis.
        diversity: fewest different values of each sensitive column in a group, at least 2; NULL is none.
        name: name of the finding.

    Returns:
        Smallest group, groups that are too small and the persons in them, of the release and of the join. No value.

    Raises:
        ConfigError: for a ``k`` of 1, columns that are not there, or ``others`` without a ``person``.
    """
    crowd, others = Crowd(k, diversity, tuple(sensitive)), dict(others or {})
    linked = _linked(release, others, quasi, person)
    figures = linked.alone().figures(crowd)
    where = "of the release"
    if others and not figures["small groups"]:
        joined = linked.figures(crowd)
        figures |= {f"{figure} of the join": value for figure, value in joined.items()}
        where = f"of the release joined with {', '.join(others)}"
    small, persons = (
        figures.get(f"{figure} of the join", 0) or figures[figure]
        for figure in ("small groups", "persons in small groups")
    )
    note = (
        f"{small} groups {where} by {', '.join(quasi)} are too small, with {persons} persons: each needs {k} persons"
        + (f" and {diversity} values of {', '.join(sensitive)}" if sensitive else "")
        + "; generalize more, or leave them out by leave_out_few"
    )
    return Finding(name, passed=not small, figures=figures, note=note if small else "")


@typed
def leave_out_few(
    release: DataFrame,
    others: Mapping[str, DataFrame] | None = None,
    *,
    quasi: Sequence[str],
    k: int,
    person: str = "",
    sensitive: Sequence[str] = (),
    diversity: int = 1,
) -> DataFrame:
    """Leave out all rows of persons in groups that :func:`judge_crowds` finds too small; lazy.

    What is left passes its judgement.

    Args:
        release: as there, and the others as well.
        others: what was released before.
        quasi: quasi-identifiers.
        k: fewest persons of a group.
        person: column of the pseudonym.
        sensitive: columns whose value nobody may conclude.
        diversity: fewest values of these.

    Raises:
        ConfigError: as there.
    """
    crowd = Crowd(k, diversity, tuple(sensitive))
    return _linked(release, dict(others or {}), quasi, person).crowded(crowd)


def _linked(release: DataFrame, others: Mapping[str, DataFrame], quasi: Sequence[str], person: str) -> Linked:
    require_rows("this pattern", release)
    return Linked(release, others, tuple(spelled_as(release.columns, quasi)), person)
