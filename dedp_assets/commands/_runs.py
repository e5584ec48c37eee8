"""Runs of this process: a partition computed with the partitions that follow, and a line for each run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rich.console import Console

from dedp_assets.commands._output import coloured, console, print_json
from dedp_assets.commands._progress import Count, counting
from dedp_assets.components.defining import REFUSED
from dedp_assets.graph.catalogue.table_names import by_layer, require_table, tables_named
from dedp_assets.graph.declare.replays import REPLAYS
from dedp_assets.laptop.orchestration.instance import Ended, Platform
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.project import project

__all__ = ["compute", "print_ended", "react", "require_computable"]


def require_computable(name: str) -> None:
    """Refuse a table that no run computes.

    Args:
        name: the table, or the replay of a table's letters, which a person approves to give letters up.

    Raises:
        ConfigError: in one sentence.
    """
    nodes = list(project().definitions().resolve_asset_graph().asset_nodes)
    faulty = {"/".join(node.key.path): node.description for node in nodes if node.group_name == REFUSED}
    if sentence := faulty.get(name):
        raise ConfigError(f"{name}: {' '.join(sentence.split())}")
    tables = [node for node in nodes if "dagster/table_name" in node.metadata]
    replays = [node for node in nodes if node.group_name == REPLAYS]
    known = sorted(("/".join(node.key.path) for node in (*tables, *replays)), key=by_layer)
    require_table(name, known, of="of the project")


def compute(
    platform: Platform, table: str, partitions: Sequence[str], tags: Mapping[str, str], *, as_json: bool = False
) -> int:
    """Compute partitions, then the partitions that the runs make stale; return the exit code.

    Args:
        platform: what runs it.
        table: the table.
        partitions: keys of the partitions in order; one empty key for a table without partitions.
        tags: tags of the runs of these partitions.
        as_json: whether to print one document for programs in place of a line for each run.
    """
    before = platform.requests()
    with counting("runs", len(partitions)) as count:
        runs = _stepping(_with_following(platform, table, partitions, before, tags), count)
        if not as_json:
            return 1 if print_ended(runs, console()) else 0
        ended = [*runs]
    print_json(ended)
    return 1 if any(each.failure for each in ended) else 0


def _with_following(
    platform: Platform, table: str, partitions: Sequence[str], before: Collection[str], tags: Mapping[str, str]
) -> Iterator[Ended]:
    """Yield the runs of partitions and, after a success, the runs of partitions that became stale."""
    done = False
    for partition in partitions:
        ended = platform.compute(table, partition=partition, tags=tags)
        done = done or not ended.failure
        yield ended
    if done:
        yield from platform.follow(table, without=before)


def react(platform: Platform, terminal: Console) -> None:
    """Run all requests of the sensors; without any, print why no sensor asks."""
    with counting("runs") as count:
        failed = print_ended(_stepping(platform.react(expect=count.expect), count), terminal)
    if failed is None:
        for sensor, reason in platform.idle.items():
            terminal.print(f"  {sensor:24} {reason}", soft_wrap=True)


def _stepping(runs: Iterable[Ended], count: Count) -> Iterator[Ended]:
    """Yield runs, and count each as done."""
    for ended in runs:
        yield ended
        count.step()


def print_ended(runs: Iterable[Ended], terminal: Console) -> int | None:
    """Print a line for each run; return the number of failed runs.

    ``None`` without runs.
    """
    failures = []
    for ended in runs:
        run = f"  {tables_named(ended.job.split(', ')):43} {ended.partition:11} because of {ended.cause:12} "
        verdict = [("refused", "red"), f"  {ended.failure}"] if ended.failure else [("done", "green")]
        terminal.print(coloured(run, *verdict), soft_wrap=True)
        failures.append(bool(ended.failure))
    return sum(failures) if failures else None
