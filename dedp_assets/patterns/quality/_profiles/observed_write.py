"""Observed write: stage of rows under observation, with faults of the observer kept apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.column import Column
from dedp_assets.patterns.core.errors import AuditFailed, ContractError, PatternError, error_line
from dedp_assets.patterns.core.measuring.metering import monotonic
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS, Unmeasured, Watch
from dedp_assets.patterns.core.measuring.profiles import Profile
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.sql.sql_options import reason_of
from dedp_assets.patterns.delta import StagedWrite, Target
from dedp_assets.patterns.quality._profiles.profile_measures import (
    ROWS,
    ProfiledColumn,
    profile_expressions,
    profile_of,
    profiled_columns,
    with_sample,
)
from dedp_assets.patterns.quality._profiles.profile_rows import online, require_profiles, rows_of, write_profiles

__all__ = ["ObservedWrite"]

_OBSERVED = "rows_are_profiled"


@dataclass(slots=True)
class ObservedWrite:
    """Observation of one write, with the faults and the time of the observer.

    Attributes:
        isolates: whether a fault is noted instead of raised.
        declared: columns of the table, whose classes say what is kept.
        fault: sentence about the first fault; empty without one.
        seconds: time that the observer took apart from the pass.
    """

    isolates: bool
    declared: Mapping[str, Column]
    fault: str = ""
    seconds: float = 0.0
    profile: Profile | None = None
    _profiles: Target | None = None
    _watch: Watch | None = None
    _watched: DataFrame | None = None
    _columns: Sequence[ProfiledColumn] = ()

    @property
    def finding(self) -> Finding:
        """The verdict on the observation, as a finding of the write."""
        return Finding(_OBSERVED, passed=not self.fault, severity="warn", note=self.fault)

    def begin(self, rows: DataFrame, profiles: Target | None, sample: float, sample_by: Sequence[str]) -> None:
        """Prepare the observation: the table of profiles, and the measures of the rows."""
        with self._isolated():
            if profiles is not None:
                require_profiles(profiles)
                self._profiles = profiles
        with self._isolated():
            columns = profiled_columns(rows.schema, self.declared)
            chosen, self._columns = with_sample(rows, columns, sample, sample_by)
            measures = profile_expressions(self._columns)
            watch = Watch({ROWS: measures.pop(ROWS)}, measures)
            self._watched = watch.on(chosen).select(*map(identifier, rows.columns))
            self._watch = watch

    def stage(self, rows: DataFrame, into: Target, *, append: bool) -> StagedWrite:
        """Stage the rows under observation; after an error of the observer, without observation."""
        if self._watched is not None:
            try:
                return into.stage(self._watched, append=append)
            except AuditFailed:
                raise
            except (PatternError, *SPARK_ERRORS) as error:
                self._isolate(error)
                self._watch = None
        return into.stage(rows, append=append)

    def note(self, staged: StagedWrite) -> StagedWrite:
        """Add the observed figures to the record of the write."""
        try:
            with self._isolated():
                if self._watch is not None:
                    self.profile = self._read(self._watch, staged.record.rows["written"])
                    notes = {**staged.record.notes, "profile": self.profile.summary()}
                    return replace(staged, record=replace(staged.record, notes=notes).stored())
        except Exception:
            staged.stage.discard()
            raise
        return staged

    def store(self, result: WriteResult) -> tuple[WriteResult, ...]:
        """Write the states for the version of the commit."""
        with self._isolated():
            if self._profiles is not None and self.profile is not None:
                stored = rows_of(self.profile, slice_name(result.partition), data_version=result.version)
                owned = online(result.table, result.version)
                return (write_profiles(self._profiles, stored, owned, version=result.version),)
        return ()

    def _read(self, watch: Watch, written: int) -> Profile:
        found = {**watch.observed()}
        if not found and not written:
            return profile_of(self._columns, {})
        lost = [name for name in watch.asked if isinstance(found.get(name, Unmeasured("")), Unmeasured)]
        if lost or found[ROWS] != written:
            raise ContractError(f"{found.get(ROWS, 0)} rows were observed with all figures, {written} were written")
        return profile_of(self._columns, found)

    @contextmanager
    def _isolated(self) -> Iterator[None]:
        """Run the block as timed work of the observer, and keep errors of the block from the write."""
        started = monotonic()
        try:
            yield
        except Exception as error:
            self._isolate(error)
        finally:
            self.seconds += monotonic() - started

    def _isolate(self, error: Exception) -> None:
        if not self.isolates:
            raise error
        reason = error_line(error) if isinstance(error, PatternError) else f"{type(error).__name__}: {reason_of(error)}"
        self.fault = self.fault or f"the rows were written without a profile: {reason}"
