"""The parts of a table's declaration: inputs, gates, and facts for the catalogue."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dedp_assets.graph.catalogue.figures import Figure
from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.declare.defaults import KINDS
from dedp_assets.graph.declare.expects import Expects
from dedp_assets.graph.inputs.feeds import Feed
from dedp_assets.graph.run.batches import Inputs
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["EMPTY", "About", "Gates", "Reads", "Request"]

EMPTY = "input_is_not_empty"
"""Check of the patterns that refuse, or warn of, a write without rows."""


@dataclass(frozen=True, slots=True)
class Request:
    """Partition and run of a call of an ``inputs`` function, before the computation.

    Attributes:
        key: partition key; empty for a table without partitions.
        at: when the run started.
        run_id: Dagster's id of the run.
        trigger: attributes of the event that started the run, by name; empty for other runs.
    """

    key: str
    at: datetime
    run_id: str
    trigger: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Touches:
    """Further places of the lake for a table's functions, besides the tables of their rows.

    Attributes:
        reads: tables whose logs or rows are looked at, and nothing is pinned of.
        writes: tables that get commits without rows, as a milestone.
        files: places of plain files that are written: a name below ``Lake.files``, an absolute path or a URI.
        whole_lake: whether the functions look at any table of the lake, as one that lists all tables does.
    """

    reads: Sequence[TableSpec] = ()
    writes: Sequence[TableSpec] = ()
    files: Sequence[str] = ()
    whole_lake: bool = False


@dataclass(frozen=True, slots=True)
class Reads:
    """Inputs of a table.

    Attributes:
        tables: upstream table -> mapping between its partitions and this table's.
        references: tables that rows are looked up in by their own time. A run reads all of each one, as it is when the
            run begins. A change of a reference asks for no partition; before all references are there, no partition is
            asked for.
        revised_by: references whose commits name the first day that they change (``TRUE_SINCE``): the days from there
            on are asked for again.
        sources: systems outside of the lake that rows come from.
        inputs: function that finds the inputs in the sources before anything is computed; its parameters are a
            :class:`Request`, and what the table's function may ask for.
        touches: places of the lake that the functions touch besides; a run refuses all others.
    """

    tables: Mapping[TableSpec, Feed] = field(default_factory=dict)
    references: Sequence[TableSpec] = ()
    revised_by: Sequence[TableSpec] = ()
    sources: Sequence[Source] = ()
    inputs: Callable[..., Inputs] | None = None
    touches: Touches = Touches()

    @property
    def upstream(self) -> tuple[TableSpec, ...]:
        """Tables and references, in the order of the function's parameters."""
        return (*self.tables, *self.references)

    @property
    def waits_for_runs(self) -> bool:
        """``True`` if a partition waits for the end of upstream runs, and not for their success alone."""
        return any(feed.fan_in is not None and feed.fan_in.ended for feed in self.tables.values())


@dataclass(frozen=True, slots=True)
class Gates:
    """Rules on a publish: audits, and further asset checks with descriptions.

    Attributes:
        audits: rules over the rows.
        checks: further rules that block, name -> description.
        if_empty: consequence of a partition without rows, the description of the check ``input_is_not_empty``.
        reports: checks that block nothing, name -> description.
    """

    audits: Sequence[Audit] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    if_empty: str = ""
    reports: Mapping[str, str] = field(default_factory=dict)

    @property
    def blocking(self) -> Mapping[str, str]:
        """Blocking rules besides the audits, name -> description."""
        return {**self.checks, **({EMPTY: self.if_empty} if self.if_empty else {})}


@dataclass(frozen=True, slots=True)
class About:
    """Facts for the catalogue.

    Attributes:
        owner: team or person that answers for the table, ``team:<name>`` or an address; by default that of the table's
            layer.
        used_by: readers of a table that no table of the graph reads.
        fresh_hours: greatest age of the newest data: of a partitioned table the time since its newest partition with
            rows ended, otherwise since the last publish. ``None``: any age.
        derived: column -> upstream columns that it is computed from, unless that is the one of the same name, or a
            trace of the query tells.
        figures: figure of a commit -> how it is shown, unless its name says enough; a text is its label.
        expects: what detectors hold against the table's log in every round, and announce as alerts.
        unchecked: kind of default check that the table does without (``freshness``, ``completeness``, ``volume``,
            ``null_shares``, ``constraints``) -> the reason, unless it follows from what starts the table's runs or
            from its partitions (``LakeTable.unchecked``).

    Raises:
        ConfigError: for an unknown kind in ``unchecked``, or a kind without a reason.
    """

    owner: str = ""
    used_by: str = ""
    fresh_hours: float | None = None
    derived: Mapping[str, Sequence[str]] = field(default_factory=dict)
    figures: Mapping[str, Figure | str] = field(default_factory=dict)
    expects: Expects = field(default_factory=Expects)
    unchecked: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind, reason in self.unchecked.items():
            if kind not in KINDS:
                raise ConfigError(f"unchecked must name kinds of default checks ({', '.join(KINDS)}), not {kind!r}")
            if not str(reason or "").strip():
                raise ConfigError(f"unchecked must say why there is no check of {kind}, not {reason!r}")
