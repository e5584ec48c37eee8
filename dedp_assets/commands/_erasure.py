"""Erasure of a visitor in the demo: the commands of a request, and visits that land meanwhile."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

from pyspark.sql import functions as F
from rich.console import Console

from dedp_assets.commands import erase
from dedp_assets.commands._migration import land
from dedp_assets.commands._output import coloured, console
from dedp_assets.commands._runs import react
from dedp_assets.graph.erasure.cases import Cases
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.project import project

__all__ = ["erase_visitor"]

_TABLE = "silver/visits"
_APPROVER = "demo"
_ROUNDS = 3
"""Further calls for places that are computed again, such as texts of other tables."""


def erase_visitor(settings: Settings) -> int:
    """Erase a visitor of the demo by command, while visits land; return the exit code.

    Args:
        settings: of a home with visits.

    Raises:
        ConfigError: without visits.
    """
    project().require_case_study("the demo")
    if not lake_of(settings).ledger(_TABLE).exists():
        raise ConfigError(f"an erasure needs rows, and {settings.lake} has no visits: run `dedp demo` first")
    terminal, platform, landing = console(), Platform(settings), settings.landing / "visits"
    request, visitor = f"DEMO-{len(Cases.of(settings.home).names()) + 1}", _visitor(landing)
    terminal.print("\nA visitor asks to be forgotten", style="bold")
    _ = _erase(settings, terminal, "--subject", f"user={visitor}", "--because", request)
    terminal.print("\nThe plan is approved", style="bold")
    code = _erase(settings, terminal, "--because", request, "--by", _APPROVER)
    terminal.print("\nVisits land, the visitor's among them", style="bold")
    for line in land(settings):
        terminal.print(f"  {line}")
    react(platform, terminal)
    for _ in range(_ROUNDS if code else 0):
        if not (code := _erase(settings, terminal, "--because", request)):
            break
        react(platform, terminal)
    left = lake_of(settings).stored(_TABLE).read().filter(F.col("user_id") == visitor).count()
    terminal.print(f"\n{_TABLE} has {left} rows of the visitor. What was done: {settings.home}/erasures/{request}.json")
    return code or int(left > 0)


def _erase(settings: Settings, terminal: Console, *words: str) -> int:
    """Run ``dedp erase`` with some words, and show the command first."""
    terminal.print(coloured("$ ", ("dedp erase " + " ".join(words), "bold")))
    parser = argparse.ArgumentParser(prog="dedp erase")
    erase.arguments(parser)
    return erase.run(settings, parser.parse_args(words))


def _visitor(landing: Path) -> str:
    """Return a visitor with few visits, and more than one, on the newest landed day."""
    newest, seen = max(landing.glob("*-*-*")), Counter[str]()
    for file in sorted(newest.glob("part-*.jsonl")):
        for line in file.read_text().splitlines():
            with suppress(ValueError, KeyError, TypeError):  # as a torn record of the bad batch
                seen[json.loads(line)["user_id"]] += 1
    several = [(count, visitor) for visitor, count in seen.items() if count > 1]
    if not several:
        raise ConfigError(f"a visitor with visits on {newest.name} must have landed: run `dedp demo` first")
    return min(several)[1]
