"""Exclusive Choice: each partition goes to exactly one branch, by key and metadata alone.

Problem: one of two jobs has to run for each partition, the legacy one for days before a migration and the modern one
    since, and a decision hidden in a script shows nobody which of them ran.
Solution: rules over the key and known facts of a partition name the branch, with the condition and the value that
    decided. ``since`` is inclusive and ``before`` exclusive, so a boundary belongs to the rule that begins there.
Consequences: no data file is opened, so a fact that only rows hold decides nothing. Rules that overlap are refused
    where they are stated if that can be shown, a partition without a rule where it is decided.
Choose instead: Parallel Split, if each partition goes to all branches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_letters, digits

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Plan

__all__ = ["plan_branch", "Choice", "Router", "Rule"]

KEY = "key"
"""Name of the partition key among the facts that a rule looks at."""
_NO_FACTS: Mapping[str, str] = {}
_FORM = str.maketrans(digits + ascii_letters, "0" * len(digits) + "a" * len(ascii_letters))


@dataclass(frozen=True, slots=True)
class Rule:
    """A branch, and the conditions on a text of a partition, all of which have to be true.

    Attributes:
        branch: name of the branch.
        before: first text after the branch's, in text order; that text itself is not of the branch.
        since: first text of the branch, in text order.
        among: the texts of the branch.
        matching: regular expression of the whole text.
        of: fact of the partition that is looked at: its ``key``, or the name of a further fact.
    """

    branch: str
    before: str = ""
    since: str = ""
    among: Sequence[str] = ()
    matching: str = ""
    of: str = KEY

    def __post_init__(self) -> None:
        require_types(self)
        if not self.branch or not self.of:
            raise ConfigError(f"branch and of must be names, not {self.branch!r} and {self.of!r}")
        if not (self.before or self.since or self.among or self.matching):
            raise ConfigError(f"branch {self.branch} must have a condition (before, since, among, matching), not none")
        if self.before and self.before <= self.since:
            raise ConfigError(f"before must lie after since, {self.since}, not be {self.before}")
        try:
            re.compile(self.matching)
        except re.error as error:
            raise ConfigError(f"matching must be a regular expression, not {self.matching!r}: {error}") from None

    @property
    def condition(self) -> str:
        """The conditions in words."""
        among = f"one of {', '.join(self.among)}" if self.among else ""
        stated = {"since": self.since, "before": self.before, "matching": self.matching}
        words = [among, *(f"{name} {text}" for name, text in stated.items() if text)]
        return ("" if self.of == KEY else f"{self.of} ") + " and ".join(filter(None, words))

    def concerns(self, text: str) -> bool:
        """Return whether list and regular expression are true of a text."""
        return (not self.among or text in self.among) and (not self.matching or bool(re.fullmatch(self.matching, text)))

    def holds(self, text: str) -> bool:
        """Return whether every condition is true of a text."""
        in_range = self.since <= text and (not self.before or text < self.before)
        return in_range and self.concerns(text)


@dataclass(frozen=True, slots=True)
class Choice:
    """The branch of a partition, with the condition and the value that decided."""

    branch: str
    condition: str
    value: str

    @property
    def reason(self) -> str:
        """The value, and the condition that holds for the value."""
        return f"{self.value}: {self.condition}"


@dataclass(frozen=True, slots=True)
class Router:
    """Rules that name exactly one branch for each partition.

    Attributes:
        rules: the rules, in any order.
    """

    rules: Sequence[Rule]

    def __post_init__(self) -> None:
        require_types(self)
        if len(self.branches) < 2:
            raise ConfigError(f"rules must name two branches or more, not {', '.join(self.branches) or 'none'}")
        for one, other in combinations(self.rules, 2):
            if (both := _shared(one, other)) is not None:
                stated = f"{one.branch} ({one.condition}) and {other.branch} ({other.condition})"
                raise ConfigError(f"rules must not overlap, as {stated} do{both and f' at {both}'}")

    @property
    def branches(self) -> tuple[str, ...]:
        """Names of the branches."""
        return tuple(dict.fromkeys(rule.branch for rule in self.rules))

    def choose(self, key: str, facts: Mapping[str, str] = _NO_FACTS) -> Choice:
        """Choose the branch of a partition.

        Args:
            key: the partition key.
            facts: further facts of the partition by name, as a file's format.

        Raises:
            ConfigError: names the key, if no rule is true of it, or two are.
        """
        true = [rule for rule in self.rules if _is_true(rule, _value(rule, key, facts))]
        if len(true) == 1:
            return Choice(true[0].branch, true[0].condition, _value(true[0], key, facts))
        known = "; ".join(f"{rule.branch}: {rule.condition}" for rule in true or self.rules)
        described = f"{key} with {', '.join(f'{name} {text}' for name, text in facts.items())}" if facts else key
        if true:
            raise ConfigError(f"rules must hold one that is true of {described}, not {len(true)} ({known})")
        raise ConfigError(f"rules must hold one that is true of {described}, not none ({known})")


@typed
def plan_branch(keys: Iterable[str] | Mapping[str, Mapping[str, str]], *, rules: Sequence[Rule], branch: str) -> Plan:
    """Plan the partitions of one branch; partitions of other branches are held with the reason.

    Args:
        keys: the partition keys; with further facts of each by name, if rules look at these.
        rules: the rules of all branches.
        branch: the branch to plan.

    Raises:
        ConfigError: if rules overlap, no rule names the branch, a key has no branch or two, or a key is written in
            another form than a bound, so that their order as texts says nothing.

    Example:
        >>> migration = [Rule("legacy", before="2024-01-01"), Rule("modern", since="2024-01-01")]
        >>> plan = plan_branch(["2023-12-31", "2024-01-01"], rules=migration, branch="modern")
        >>> plan.causes
        {'2024-01-01': '2024-01-01: since 2024-01-01'}
        >>> plan.held
        {'2023-12-31': 'legacy, 2023-12-31: before 2024-01-01'}
    """
    router = Router(rules)
    if branch not in router.branches:
        raise ConfigError(f"branch must be one of {', '.join(router.branches)}, not {branch!r}")
    facts = keys if isinstance(keys, Mapping) else {}
    chosen = {key: router.choose(key, facts.get(key, _NO_FACTS)) for key in keys}
    causes = {key: choice.reason for key, choice in chosen.items() if choice.branch == branch}
    held = {key: f"{choice.branch}, {choice.reason}" for key, choice in chosen.items() if choice.branch != branch}
    return Plan(tuple(causes), f"{len(causes)} of {len(chosen)} are {branch}", causes=causes, held=held)


def _value(rule: Rule, key: str, facts: Mapping[str, str]) -> str:
    """Return the text that a rule looks at."""
    if rule.of != KEY and rule.of not in facts:
        raise ConfigError(f"the facts of {key} must have {rule.of}, which branch {rule.branch} is chosen by")
    return key if rule.of == KEY else facts[rule.of]


def _is_true(rule: Rule, text: str) -> bool:
    """Return whether a rule is true of a text, which has to be written like the rule's bounds."""
    if not rule.concerns(text):
        return False
    for bound in filter(None, (rule.before, rule.since)):
        form, needed = text.translate(_FORM), bound.translate(_FORM)
        if not (form.startswith(needed) or needed.startswith(form)):
            raise ConfigError(f"{rule.of} must be written like {bound}, which branch {rule.branch} has, not {text}")
    return rule.holds(text)


def _shared(one: Rule, other: Rule) -> str | None:
    """Find a text that satisfies two rules, by their ranges and lists.

    Returns:
        The text; ``None`` if ranges and lists show no such text.
    """
    if one.of != other.of:
        return None
    # Of two ranges that meet, the later beginning is in both. A regular expression is tried on these texts alone.
    texts = one.among or other.among or (max(one.since, other.since),)
    return next((text for text in texts if one.holds(text) and other.holds(text)), None)
