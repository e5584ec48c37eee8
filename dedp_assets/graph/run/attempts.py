"""Attempts of the run loop: an error of a partition becomes a retry, a refusal or a failed step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import dagster as dg

from dedp_assets.graph.outcomes.failures import (
    LOST_ENGINE,
    RETRIES,
    cause_of,
    is_lost_engine,
    lost_engine,
    retry,
    sentence,
    unexpected,
)
from dedp_assets.graph.outcomes.run_tags import copied_results, refusal
from dedp_assets.patterns.core.errors import TRANSIENT, PatternError

__all__ = ["Attempts", "partition_keys"]


@dataclass(slots=True)
class Attempts:
    """The errors of one step's partitions.

    Attributes:
        context: Dagster's.
        table: name of the table that the step computes.
        errors: partition key -> reason for which the partition was not computed.
        broken: partition key that ended the step before all were tried, and the unforeseen error.
    """

    context: dg.OpExecutionContext
    table: str
    errors: dict[str, Exception] = field(default_factory=dict)
    broken: tuple[str, Exception] | None = None

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Run the block as the attempt at one partition, and record the error of a failed attempt."""
        try:
            yield
        except (PatternError, *TRANSIENT) as error:
            self.errors[key] = error
        except Exception as error:  # whatever it is, what was done before it is reported first
            self.broken = (key, error)

    @property
    def refused(self) -> Mapping[str, PatternError]:
        """Partition key -> error of a refusal by data or code, which no retry mends."""
        return {k: e for k, e in self.errors.items() if isinstance(e, PatternError) and not e.retryable}

    def sentences(self) -> dict[str, str]:
        """Return, for each partition that was not computed, the reason in one sentence."""
        return {key: sentence(self.table, key, error) for key, error in self.errors.items()}

    def tag_refused(self, goal: Callable[[str], object]) -> None:
        """Tag the run with the refused partitions and versions; copied results name the parent run."""
        refused = (item for key in self.refused for item in refusal(self.table, key, goal(key)).items())
        if tags := {**copied_results(self.context.run, self.table), **dict(refused)}:
            self.context.instance.add_run_tags(self.context.run.run_id, tags)

    def raise_retry(self) -> None:
        """Raise ``RetryRequested`` for a transient error, as long as attempts are left."""
        number = self.context.retry_number
        transient = next((error for error in self.errors.values() if isinstance(error, TRANSIENT)), None)
        if transient and not self.broken and number < RETRIES:
            raise retry(number) from cause_of(transient)

    def raise_broken(self) -> None:
        """Raise the failure for an unforeseen error; mark a run with a lost engine for a new request."""
        if self.broken is None:
            return
        key, error = self.broken
        if not is_lost_engine(error):
            raise unexpected(self.table, key, error) from cause_of(error)
        run = self.context.run
        again = {name: value for name, value in LOST_ENGINE.items() if name not in run.tags}
        self.context.instance.add_run_tags(run.run_id, again)
        raise lost_engine(self.table, key) from cause_of(error)


def partition_keys(context: dg.AssetExecutionContext) -> Sequence[str]:
    """List the partition keys of a run, in order; one empty key for a run, or a table, without partitions."""
    if context.assets_def.partitions_def is None:
        return [""]
    return list(context.partition_keys) if context.has_partition_key or context.has_partition_key_range else [""]
