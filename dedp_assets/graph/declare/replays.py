"""Replays of dead letters: one asset per declared table with a replay, over the table's open letters.

Nothing else is computed: the letters are judged by the present code, and those that it can process join their
partition. The reconciler sees which dates that changed, and what is computed from them follows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.figures import Figure
from dedp_assets.graph.catalogue.rendering import Did, materialized, metadata_of
from dedp_assets.graph.catalogue.specs import asset_key, code_of
from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.declare.touching import declared_only
from dedp_assets.graph.inputs.feeds import Feed, pin
from dedp_assets.graph.outcomes.failures import failure
from dedp_assets.graph.outcomes.run_tags import provenance_of
from dedp_assets.graph.run.attempts import Attempts, partition_keys
from dedp_assets.graph.run.batches import Inputs, Step, owned_by
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Access, WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table, Target
from dedp_assets.patterns.error_management._letters import LETTER, open_by_class
from dedp_assets.patterns.error_management.dead_letter_replay import replay_letters

__all__ = ["REPLAYS", "letters_of", "replay_asset", "replay_key"]

Replay = Callable[[Target, Target], WriteResult]
REPLAYS = "replay"
"""Group of the assets that replay dead letters."""
REPORT = dg.TableSchema(
    [
        dg.TableColumn("error_class", "string", "what is wrong with letters that are still open"),
        dg.TableColumn("records", "bigint", "how many there are"),
    ]
)


def letters_of(table: LakeTable[...]) -> TableSpec:
    """Return the table of dead letters among the outputs of a declared table.

    Raises:
        ConfigError: if it has none, or several.
    """
    found = [spec for spec in table.beside if set(LETTER) <= set(spec.columns)]
    if len(found) != 1:
        raise ConfigError(
            f"{table.spec.name} replays dead letters and has {len(found)} tables of them in beside=, not one"
        )
    return found[0]


def replay_key(table: LakeTable[...]) -> dg.AssetKey:
    """Name the asset that replays a table's letters: ``<layer>/<dataset>_dead_letter_replay``."""
    *layer, dataset = asset_key(table.spec).path
    return dg.AssetKey([*layer, f"{dataset}_dead_letter_replay"])


def replay_asset(table: LakeTable[...], replay: Replay) -> dg.AssetsDefinition:
    """Make the asset that replays the letters of a declared table, partition by partition.

    Args:
        table: the table.
        replay: the table's own function that processes the letters of one partition.
    """
    key, letters = replay_key(table), letters_of(table)
    pattern = replay_letters.__module__.removeprefix("dedp_assets.patterns.")
    spec = dg.AssetSpec(
        key,
        deps=[asset_key(table.spec), asset_key(letters)],
        description=f"Runs the open letters of {letters.name} again, by the present code: those that it can process "
        f"join their partition of {table.spec.name}, once; the others stay open with the new reason. Started by a new "
        "code version of the table, or by a person, at any time. A run that a named person approves gives up what is "
        "refused again.\n\nPatterns at work: Dead-Letter Replay.",
        metadata={
            "dagster/column_schema": REPORT,
            "patterns": pattern,
            "used by": f"{table.about.owner}, after a fix; what it saves is in {table.spec.name}",
            "dagster/code_references": code_of(replay),
        },
        group_name=REPLAYS,
        code_version=table.code_version,
        owners=[table.about.owner],
        tags={"dedp/pattern": pattern, "dedp/chapter": pattern.partition(".")[0]},
        kinds={"spark", "deltalake"},
        partitions_def=table.runs.partitions,
    )

    @dg.multi_asset(
        specs=[spec],
        name="_".join(key.path),
        pool=table.name,
        required_resource_keys={"lake", "clock"},
    )
    def compute(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[Any]]:
        lake = context.resources.lake
        upstream = {feed: lake.table(spec) for spec, feed in table.reads.tables.items()}
        valid, dead, audits = lake.table(table.spec), lake.table(letters), tuple(table.gates.audits)
        work = _Work(valid, dead, upstream, replay, audits, table.about.figures, table.access(lake))
        provenance = provenance_of(
            context.run,
            table.spec.name,
            code_version=context.assets_def.code_versions_by_key[key] or "1",
            at=context.resources.clock.now(),
        )
        done = _replay_all(context, work, provenance)
        yield materialized(context, key, {partition: _replay_metadata(result) for partition, result in done.items()})

    return compute


@dataclass(frozen=True, slots=True)
class _Work:
    """A replay: tables, upstream tables, function, audits, display of figures, access."""

    valid: Table
    dead: Table
    upstream: Mapping[Feed, Table]
    replay: Replay
    audits: tuple[Audit, ...]
    figures: Mapping[str, Figure | str]
    access: Access

    def partition(self, key: str, provenance: Provenance) -> WriteResult:
        """Replay the dead letters of one partition; without letters, or for a stale partition, write nothing."""
        name, nothing = self.valid.name, WriteResult(self.valid.name, -1, applied=False, changed=False, reason="")
        if not self.dead.ledger.exists() or not self.dead.ledger.state().holds(owned_by(key, self.dead.spec)):
            return replace(nothing, reason="there are no letters")
        newest = sum(pin(table, feed, key).changed for feed, table in self.upstream.items())
        applied = self.valid.ledger.transactions().applied(name, owned_by(key, self.valid.spec))
        if applied is None or applied < newest:
            due = f"what {name} {key} is computed from has changed: its own run processes the letters, too"
            return replace(nothing, reason=due)
        step = Step(key, Inputs({}), provenance)
        with declared_only(self.access):
            return self.replay(step.target(self.valid, self.audits), step.target(self.dead))


def _replay_all(context: dg.AssetExecutionContext, work: _Work, provenance: Provenance) -> dict[str, WriteResult]:
    """Replay the run's partitions in turn, and record a materialization of each change.

    Raises:
        dagster.Failure: if a partition was refused; the others are replayed all the same.
        dagster.RetryRequested: if another writer was in the way, or something did not answer in time.
    """
    done, attempts = dict[str, WriteResult](), Attempts(context.op_execution_context, work.valid.name)
    for key in partition_keys(context):
        with attempts.at(key):
            done[key] = work.partition(key, provenance)
        if attempts.broken:
            break
        if key in done:
            _record(context, work, key, done[key])
    attempts.tag_refused(lambda _: f"code-{provenance.code_version}")
    attempts.raise_retry()
    attempts.raise_broken()
    if attempts.errors:
        raise failure(attempts.errors, attempts.sentences())
    return done


def _record(context: dg.AssetExecutionContext, work: _Work, key: str, result: WriteResult) -> None:
    """Record a materialization of the partition in each table that the replay wrote."""
    results = {each.table: each for each in (result, *result.beside)}
    for table in (work.valid, work.dead):
        if (wrote := results.get(table.name)) and wrote.applied:
            commit = table.ledger.commit(wrote.version)
            did = Did(outcome=result.reason, commits={table: commit}, results={table: wrote})
            metadata = metadata_of(table, {key: commit}, {key: did}, figures=work.figures)[key]
            context.log_event(dg.AssetMaterialization(table.name.split("/"), partition=key or None, metadata=metadata))


def _replay_metadata(result: WriteResult) -> dict[str, Any]:
    """Return the metadata of a replay: outcome, changed partitions, and letters by status and error class."""
    figures = result.beside[0].figures if result.beside else {}
    saved = {"saved": result.figures["inserted"] + result.figures["updated"]} if result.figures else {}
    counts = {**saved, **{name: figures[name] for name in ("open", "replayed", "given_up") if name in figures}}
    left = [dg.TableRecord({"error_class": name, "records": n}) for name, n in open_by_class(figures).items()]
    return {
        "outcome": result.reason,
        "changed partitions": dg.MetadataValue.json([dict(result.partition)] if result.changed else []),
        "still open": dg.MetadataValue.table(left, REPORT),
        **{f"{name.replace('_', ' ')} [records]": count for name, count in counts.items()},
    }
