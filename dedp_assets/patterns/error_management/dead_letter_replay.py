"""Dead-Letter Replay: letters that a fix can save reach their partition once, without a rebuild.

Problem: a fix of the code saves one record in a hundred, and computing their partitions anew reads all of them.
Solution: judge the letters alone by the new code, merge those that are valid now into the partition by their key, and
    note in every letter what became of it. A letter that is refused again stays open, with the new reason.
Consequences: the other rows stay as the old code computed them: the next run of the partition computes it whole.
    Whoever reads the partition has to be computed again, as after any late record.
Choose instead: a run of the partition, if the fix changes more than what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.columns import fields_of, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Plan, Split, WriteResult
from dedp_assets.patterns.core.rows import evaluated_once, row_hash
from dedp_assets.patterns.delta import (
    Insert,
    Merge,
    Table,
    Target,
    Update,
    require_partition,
    require_untouched,
    same_run,
)
from dedp_assets.patterns.error_management._letters import LETTER, filed, publish_letters, require_fitting

_PATTERN = "error_management.dead_letter_replay"

__all__ = ["replay_letters", "open_letters", "plan_replay"]

_PLACE, _REPEATED = f"{RESERVED}place", "duplicate"


@typed
def replay_letters(split: Split, into: Target, dead: Target, *, keys: Sequence[str], since: int) -> WriteResult:
    """Replay a partition's dead letters: merge each valid record once, and note every outcome.

    The rows come first and the letters after them: a crash in between leaves letters open whose rows are there, and the
    next replay finds them there. What is refused again is given up if a named person approves that.

    Args:
        split: what ``divert_unprocessable``, and further steps, make of :func:`open_letters`.
        into: target of the records, with the partition that they belong to. An approval of its run gives up what is
            refused again; its audits of dead letters are judged anew, and warn.
        dead: target of the letters, of the same run, with the partition that they lie in.
        keys: required columns that make a row of the partition unique; of two with the same key the first by the
            split's identity stays, as a rebuild chooses.
        since: version of ``dead`` that the letters were read at.

    Raises:
        ConfigError: for a key that may be NULL: a record with such a key would be added by every replay.
        Conflict: if another run wrote the partition meanwhile.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> from dedp_assets.patterns.error_management.dead_letter import LETTER, divert_unprocessable, route
        >>> columns = {"id": Column("BIGINT"), "n": Column("INT", required=True)}
        >>> columns |= {"was_dead_lettered": Column("BOOLEAN"), "day": Column("STRING")}
        >>> days = table(TableSpec("days", columns, partition_by=("day",)))
        >>> columns = {"raw": Column("STRING"), "n": Column("INT"), **LETTER, "day": Column("STRING")}
        >>> dead = Table(TableSpec("days_dead_letter", columns, partition_by=("day",)), days.store.uri + "_dead", spark)
        >>> def judged(lines, **rules):
        ...     options = {"payload": "raw", "schema": {"id": "BIGINT"}, "identity": ["n"], "carry": ["day"]}
        ...     return divert_unprocessable(lines, rules=rules, **options)
        >>> monday = {"day": "mon"}
        >>> lines = frame("n INT, raw STRING, day STRING", (1, '{"id": 7}', "mon"), (2, '{"id": -1}', "mon"))
        >>> wrong = judged(lines, too_small="id > 0")
        >>> into, filed = days.target(run, partition=monday), dead.target(run, partition=monday)
        >>> _ = route(wrong, into, filed)
        >>> letters = open_letters(dead, filed_under=monday, version=1)
        >>> replay_letters(judged(letters), into, filed, keys=["n"], since=1).reason
        '1 letters saved, 0 refused again'
        >>> rows(days)
        [(-1, 2, True, 'mon'), (7, 1, False, 'mon')]
    """
    into, dead = into.by(_PATTERN, "partition", "audits"), dead.by(_PATTERN, "partition")
    same_run(into, dead)
    valid, keys = into.table, _required(into.table, keys)
    standing = valid.ensure()
    partition = require_partition(valid.name, standing, into.partition)
    filed_under = require_partition(dead.name, dead.table.ledger.state(), dead.partition)
    # Who writes both tables writes the letters first: what comes between these two lines and the merge is seen by it.
    require_untouched(dead.table, filed_under, since)
    require_fitting(split, dead.table)
    run = replace(into.run, inputs={dead.name: since}, sequence=None)
    into, dead = replace(into, run=run, partition=partition), replace(dead, run=run, partition=filed_under)
    with evaluated_once(_each_once(split, keys)) as rows:
        known = replace(split, rows=rows)
        counted = rows.groupBy(identifier(OUTCOME)).agg(F.expr("count(1)")).collect()
        saved, again = (sum(row[1] for row in counted if row[0] == part) for part in ("valid", "dead"))
        written = WriteResult(valid.name, valid.ledger.version(), applied=False, changed=False, reason="")
        if saved:
            into = replace(into, audits=_left(into.audits, valid, partition, again, saved))
            written = _admit(known, into, keys=keys, since=standing.version)
        before, readmitted = dead.table.read(filed_under, version=since), _readmitted(valid, partition)
        letters = filed(known["dead"], before, readmitted, dead, identity=split.identity)
        if run.approval:
            letters = letters.withColumn("status", F.expr("if(status = 'open', 'given_up', status)"))
        noted = publish_letters(letters, dead, identity=split.identity, since=since)
    reason = f"{saved} letters saved, {again} {'given up' if run.approval else 'refused again'}"
    return replace(written, reason=reason, partition=partition, beside=(noted,))


@typed
def open_letters(dead: Table, *, filed_under: Mapping[str, str], version: int) -> DataFrame:
    """Read the unreplayed letters of a partition as records; lazy.

    Args:
        dead: table of the letters.
        filed_under: the partition.
        version: version to read.
    """
    waiting = dead.read(filed_under, version=version).filter("status <> 'replayed'")
    return waiting.drop(*[column for column in LETTER if column in waiting.columns])


@typed
def plan_replay(open_letters: Mapping[str, int], refused_by: Mapping[str, str], *, code_version: str) -> Plan:
    """Choose the partitions with open letters refused by another code version, oldest first.

    Args:
        open_letters: partition -> dead letters that nothing could process yet, in records.
        refused_by: partition -> code version that refused them last.
        code_version: version of the code that would process them now.

    Example:
        >>> plan_replay({"2026-01-05": 3, "2026-01-06": 0}, {"2026-01-05": "1"}, code_version="2").partitions
        ('2026-01-05',)
    """
    waiting = [key for key, count in sorted(open_letters.items()) if count]
    causes = {key: f"replay of {open_letters[key]}" for key in waiting if refused_by.get(key) != code_version}
    held = {key: f"{open_letters[key]} dead letters of this very code" for key in waiting if key not in causes}
    reason = f"{len(causes)} partitions to replay, {len(held)} wait for a fix"
    return Plan(tuple(causes), reason, causes, held, cursor=dict.fromkeys(causes, f"code-{code_version}"))


def _required(valid: Table, keys: Sequence[str]) -> list[str]:
    """Return the keys in the table's spelling; refuse unknown and nullable key columns."""
    held = valid.spec.columns
    keys = spelled_as(held, keys)
    require_distinct("keys=", keys)
    if not keys or (unknown := [key for key in keys if key not in held]):
        raise ConfigError(f"keys must name columns of {valid.name}, not {unknown if keys else 'none'}")
    if loose := [key for key in keys if not held[key].required]:
        raise ConfigError(f"{', '.join(loose)} may be NULL in {valid.name}: a replay needs keys that are required")
    return keys


def _each_once(split: Split, keys: Sequence[str]) -> DataFrame:
    """Flag valid records with a repeated key, all but the first by identity and content."""
    rows, valid = split.rows, f"{OUTCOME} = 'valid'"
    same = [F.expr(valid), *[F.expr(f"if({valid}, {identifier(key)}, NULL)") for key in keys]]
    order = [*map(F.col, map(identifier, split.identity)), F.expr(row_hash(fields_of(rows, split.parts["valid"])))]
    place = F.row_number().over(Window.partitionBy(*same).orderBy(*order))
    outcome = F.expr(f"if({valid} AND {_PLACE} > 1, '{_REPEATED}', {OUTCOME})")
    return rows.withColumn(_PLACE, place).withColumn(OUTCOME, outcome).drop(_PLACE)


def _admit(split: Split, into: Target, *, keys: Sequence[str], since: int) -> WriteResult:
    """Merge the valid records into the partition; of equal keys, the lowest identity wins."""
    mine, theirs = (f"struct({', '.join(f'{side}.{identifier(c)}' for c in split.identity)})" for side in "st")
    return into.table.merge(
        split["valid"].withColumn("was_dead_lettered", F.lit(True)),  # noqa: FBT003
        Merge(keys, [Update(when=f"{mine} < {theirs}"), Insert()]),
        provenance=into.run,
        partition=into.partition,
        since=since,
        audits=into.audits,
    )


def _readmitted(valid: Table, partition: Mapping[str, str]) -> DataFrame:
    """Read the valid rows of a partition that were dead letters."""
    return valid.read(partition).filter("was_dead_lettered")


def _left(
    audits: Sequence[Audit], valid: Table, partition: Mapping[str, str], again: int, saved: int
) -> tuple[Audit, ...]:
    """Turn the audits over dead letters into warnings on the share left after the replay."""
    held = valid.ledger.state().statistics().items()
    rows = sum(stats.rows for values, stats in held if partition.items() <= dict(values).items())
    share = f"max(if({OUTCOME} IS NOT NULL, {again / (rows + saved + again)}D, 0D))"
    return tuple(
        Audit(name=audit.name, sql=share, warn_above=audit.fail_above if audit.warn_above is None else audit.warn_above)
        for audit in audits
        if audit.of == "dead"
    )
