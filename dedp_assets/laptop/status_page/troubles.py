"""Troubles of the status page: current and announced troubles, and the verdicts of the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from dedp_assets.graph.mail.episodes import Episode
from dedp_assets.graph.observe.observing import Observation
from dedp_assets.laptop.status_page.model import ShownTrouble, TableRow
from dedp_assets.patterns.core.measuring.troubles import SEVERITIES, Trouble, TroubleKey

__all__ = ["with_episodes", "with_verdict"]

_SEEN_NOW = frozenset({"given up", "lost files", "refused", "stale", "unreadable", "unusable"})
"""Kinds that each observation finds again as long as they last, whatever samples of positions it has."""


def with_episodes(seen: Observation, episodes: Iterable[Episode]) -> list[Trouble]:
    """Return the current troubles since their announced beginning, and the announced troubles that last.

    Args:
        seen: what was found now.
        episodes: open episodes of alerts.
    """
    by_key: dict[TroubleKey, Episode] = {each.alert.key: each for each in episodes}
    found = [_continued(each, by_key.pop(each.key, None)) for each in seen.troubles]
    return [*found, *(replace(each.alert, since=each.since) for each in by_key.values() if _lasts(each.alert, seen))]


def _lasts(announced: Trouble, seen: Observation) -> bool:
    """Return whether an announced trouble lasts although the observation does not show the trouble."""
    judged = announced.kind.partition(",")[0] in _SEEN_NOW and announced.table not in seen.unjudged and not seen.unread
    return announced.source == "code" or announced.key in seen.undecided or not judged


def _continued(trouble: Trouble, episode: Episode | None) -> Trouble:
    if episode is None:
        return trouble
    severity = max(trouble.severity, episode.alert.severity, key=SEVERITIES.index)
    since = min(filter(None, [trouble.since, episode.since]))
    return replace(trouble, severity=severity, since=since)


def with_verdict(row: TableRow, troubles: Sequence[ShownTrouble], unknown: Collection[str] = ()) -> TableRow:
    """Return a table with the number of open troubles and with the verdict.

    Args:
        row: the table.
        troubles: all troubles.
        unknown: tables of which nothing can be said.
    """
    own = [each for each in troubles if each.table == row.name and each.needs_somebody]
    reached = any(row.name in each.affected.tables for each in troubles if each.needs_somebody)
    otherwise = "affected" if reached and row.verdict == "ok" else row.verdict
    otherwise = "unknown" if row.name in unknown and otherwise == "ok" else otherwise
    worst = max((each.severity for each in own), key=SEVERITIES.index, default=otherwise)
    return replace(row, verdict=worst, troubles=len(own))
