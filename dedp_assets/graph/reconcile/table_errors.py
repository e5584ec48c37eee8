"""Errors of single tables, noted so that the other tables of the graph are still processed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from dedp_assets.graph.run.batches import NOT_COMPUTED
from dedp_assets.patterns.core.errors import ContractError, PatternError, error_line

__all__ = ["TableErrors"]


class TableErrors(dict[str, str]):
    """Table -> reason why the table cannot be observed."""

    @contextmanager
    def at(self, table: str) -> Iterator[None]:
        """Note any exception of the block as the table's error; the first error of a table stays.

        Args:
            table: the table that the block reads.
        """
        try:
            yield
        except Exception as error:
            # Also a fault of code: one table's must not keep all others from their runs.
            known = isinstance(error, PatternError)
            self.setdefault(table, error_line(error) if known else f"{table} cannot be observed: {error_line(error)}")

    def report(self, context: dg.SensorEvaluationContext, *, fail: bool) -> None:
        """Report the errors of a tick: a tick with requests cannot fail, so each table gets an observation.

        Args:
            context: the tick's.
            fail: whether the tick fails, because it requests nothing.

        Raises:
            ContractError: all errors, in a tick that fails.
        """
        if self and fail:
            raise ContractError(str(self))
        for table, reason in self.items():
            context.log.error(f"{table} is not asked for: {reason}")
            observed = dg.AssetObservation(table.split("/"), metadata={NOT_COMPUTED: reason})
            context.instance.report_runless_asset_event(observed)

    def __str__(self) -> str:
        return "; ".join(self.values())
