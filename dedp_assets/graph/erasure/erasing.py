"""Erasure of a person from a platform: plan, erasure after an approval, end.

Every step may be repeated, and a run after a crash goes on: tables are erased by their declared persons, ids in files
beside the tables are redacted, keys and tokens of the person are destroyed. What is computed from erased tables is
looked through until it was computed again. What the platform cannot erase stands in the report as owed by its owner.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from dedp_assets.graph.declare import LakeJob, LakeTable, Source
from dedp_assets.graph.erasure.cases import Case, CasePlace, Cases
from dedp_assets.graph.erasure.files import (
    Redacted,
    copies_with_ids,
    files_below,
    past_holds_ids,
    redact_files,
    redact_store,
)
from dedp_assets.graph.erasure.history import redact_history
from dedp_assets.graph.erasure.noncurrent import erase_versions
from dedp_assets.graph.erasure.spellings import LEAST, Spellings
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.postgres import history_url
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.delta import Store, Table, holds, is_in_bucket, shown_holds, store_at, subjects_of
from dedp_assets.patterns.delta.maintenance import purge_history
from dedp_assets.patterns.governance.gdpr_erase import Erasure, Persons, erase_person, find_person
from dedp_assets.patterns.security.encryptor import KeyRing
from dedp_assets.patterns.security.pseudo_anonymizer import TokenVault

__all__ = ["Eraser"]

_CHECKPOINTS, _ROCKSDB = "_checkpoints", (".zip", ".sst", ".changelog")
_QUERY = "query"
"""Figure of a state that cannot be searched: id of the query when the persons were erased."""
_COUNTED = ("table", "files", "keys", "tokens", "database", "bucket")
"""Kinds of places whose numbers are of erased rows, values and files, and add up over runs."""
_OWN = ("cache", "erasures", "keys")
"""Folders of the home without rows of anybody: jars, the cases themselves, wrapped keys."""
_SERVERS = ("postgres", "kafka", "bao", "s3", "registry")
_PATHS = re.compile(r"\$(?:\.\w+)*\.(\w+)")
_TEXTS = (T.StringType, T.BinaryType, T.ArrayType, T.MapType, T.StructType)


@dataclass(frozen=True, slots=True)
class Eraser:
    """All places of a platform that may hold a person.

    Attributes:
        lake: the tables.
        tables: the declared tables, by name; others of the lake are opened by their logs.
        home: folder of the platform.
        landing: location of the landing zone; empty without one.
        cases: the requests.
        elsewhere: systems that the platform reads from and does not own.
        history: URL of the run history's database; empty for files of the home.
        key_ring: opens the keys of encrypted columns.
        token_vault: opens the tokens.
    """

    lake: Lake
    tables: Mapping[str, Table]
    home: Path
    landing: str
    cases: Cases
    elsewhere: Sequence[Source] = ()
    history: str = field(default="", repr=False)
    key_ring: Callable[[], KeyRing] | None = None
    token_vault: Callable[[], TokenVault] | None = None

    @classmethod
    def of(
        cls,
        chosen: Settings,
        lake: Lake,
        declared: Sequence[LakeTable[...]],
        secrets: Secrets,
        jobs: Sequence[LakeJob] = (),
    ) -> Eraser:
        """Open the places of the platform of the settings.

        Args:
            chosen: the settings.
            lake: the tables.
            declared: the declared tables of all code locations.
            secrets: keys and tokens.
            jobs: the declared jobs, whose sources hold persons, too.
        """
        specs = {spec.name: spec for table in declared for spec in table.tables}
        read = [*((each.spec, each.reads.sources) for each in declared)]
        read += [(spec, _sources(job)) for job in jobs for spec in job.writes]
        sources = {each.name: each for spec, named in read if subjects_of(spec) for each in named}
        by_others = [each for name, each in sorted(sources.items()) if not name.startswith("landing/")]
        ring, vault = chosen.home / "keys/columns.ring", chosen.home / "keys/tokens.vault"
        return cls(
            lake,
            {name: lake.table(spec) for name, spec in specs.items() if lake.ledger(name).exists()},
            chosen.home,
            chosen.landing_zone,
            Cases.of(chosen.home),
            by_others,
            history=history_url(chosen),
            key_ring=(lambda: secrets.key_ring("dedp erase")) if ring.exists() else None,
            token_vault=(lambda: secrets.token_vault("dedp erase")) if vault.exists() else None,
        )

    def plan(self, erasure: Erasure) -> Case:
        """Find the persons in every place, without a change, and keep the plan as a case.

        A request that is planned again keeps the time at which the request came: the deadline counts from then.

        Raises:
            ConfigError: for a kind of person that no table declares, or a case that is under way.
        """
        with self.cases.erasing():  # which cuts the logs that a plan reads
            return self._plan(erasure)

    def _plan(self, erasure: Erasure) -> Case:
        """Find the persons, and keep the plan."""
        known = self.cases.case(erasure.request) if self.cases.knows(erasure.request) else None
        if known and known.approved_by:
            raise ConfigError(f"{erasure.request} was approved: `dedp erase --because {erasure.request}` goes on")
        tables = self.with_persons()
        ids = Persons.found(tables, erasure.ids, self.lake.suppression()).ids
        found = find_person(tables, replace(erasure, ids=ids), self.lake.suppression())
        places = [
            CasePlace(
                each["table"], "table", each["rows"], "held" if "held" in each else "open", _planned(each), figures=each
            )
            for each in found.figures["tables"]
        ]
        places += [_of_others(each) for each in self.elsewhere]
        if not found.passed:
            places.append(CasePlace("request", "refusal", state="open", note=found.note))
        at = known.at if known else erasure.at.isoformat()
        return self.cases.keep(Case(erasure.request, at, erasure.because, places=tuple(places)), ids)

    def erase(self, case: Case, run: Provenance, *, now: datetime, most: float = 0.1, leave_held: bool = False) -> Case:
        """Erase the persons of an approved case from every place that can be erased now.

        Args:
            case: the case.
            run: who erases.
            now: current time, with time zone.
            most: share of a table's rows that the persons may have.
            leave_held: whether rows on legal hold stay until the hold is released.

        Returns:
            The case, ended and signed if nothing is left.

        Raises:
            ConfigError: for a case without an approval.
            ContractError: if the persons have too many rows, or rows on legal hold; nothing is changed.
        """
        if not case.approved_by:
            raise ConfigError(f"{case.request} must be approved first: dedp erase --because {case.request} --by NAME")
        with self.cases.erasing():
            known = self.cases.case(case.request)  # as another run left the case meanwhile
            return known if known.ended else self._erase(known, run, now, most=most, leave_held=leave_held)

    def _erase(self, case: Case, run: Provenance, now: datetime, *, most: float, leave_held: bool) -> Case:
        """Erase the persons of a case, and note each place."""
        ids = self.cases.ids(case)
        erasure = Erasure(
            request=case.request,
            ids=ids,
            at=datetime.fromisoformat(case.at),
            because=case.because,
            most=most,
            held="leave" if leave_held else "refuse",
        )
        due = case.due.date().isoformat()
        before = {(place.kind, place.name): place for place in case.places}
        places: dict[tuple[str, str], CasePlace] = {}
        for place in self._erased(erasure, run, now):
            key = place.kind, place.name
            total = _total(before[key], place) if key in before else place
            places[key] = replace(total, due=due) if total.state in ("open", "held") else replace(total, due="")
            # Noted at once: a run after a crash finds nothing where this one erased.
            self.cases.keep(replace(case, places=tuple({**before, **places}.values())))
        case = self.cases.keep(replace(case, places=tuple(places.values())))
        return case if case.open else self.cases.end(case, now=now)

    def _erased(self, erasure: Erasure, run: Provenance, now: datetime) -> Iterator[CasePlace]:
        tables = self.with_persons()
        spellings = Spellings([each for named in erasure.ids.values() for each in named], _fields(tables, erasure.ids))
        done = erase_person(erasure, [each.target(run) for each in tables], self.lake.suppression(), purge=False)
        for table in tables:
            rows = done.figures["tables"].get(table.name, 0)
            yield self._purged(table, rows, spellings, run, now)
        named = {table.name for table in tables}
        for name in self.lake.names():
            if name in named:
                continue
            try:
                yield self._derived(self._opened(name), spellings, run, now)
            except PatternError as error:
                yield CasePlace(name, "derived", state="open", note=str(error))
        yield from self._keys(erasure, now)
        yield from self._beside(spellings)
        yield from self._copied(spellings)
        yield from (_of_others(each, erasure.at) for each in self.elsewhere)
        if short := sum(len(each) < LEAST for named_ids in erasure.ids.values() for each in named_ids):
            note = f"looked for in declared columns only: {quantity(short, 'ids')} of fewer than {LEAST} letters"
            yield CasePlace("texts", "files", state="owed", note=note)
        yield from self._versions(spellings)

    def _purged(self, table: Table, rows: int, spellings: Spellings, run: Provenance, now: datetime) -> CasePlace:
        """Purge the past of a table, if a file of the past may hold an id; time travel of other tables stays."""
        state = "erased" if rows else "nothing"
        files = [file for file, _ in table.ledger.state().keyed_files()]
        present = {unquote(file["path"]) for file in files}
        # A file keeps the rows that a vector deletes.
        marked = any("deletionVector" in file for file in files)
        if not (rows or marked or past_holds_ids(table.store, present, spellings)):
            return CasePlace(table.name, "table", rows, state, "no file of the past holds an id")
        if standing := holds(table.ledger):
            return CasePlace(table.name, "table", rows, "held", f"its past stays, {shown_holds(standing)}")
        try:
            purged = purge_history(table, provenance=run, now=now)
        except PatternError as error:
            return CasePlace(table.name, "table", rows, "open", str(error))
        figures = {**purged.figures, "version": purged.version}
        return CasePlace(table.name, "table", rows, state, purged.reason, figures=figures)

    def _derived(self, table: Table, spellings: Spellings, run: Provenance, now: datetime) -> CasePlace:
        """Look for ids in the rows of a table without declared persons; purge the past once no row holds one."""
        if not _texts_of(table):
            return CasePlace(table.name, "derived")
        if held := _rows_with_ids(table, spellings):
            note = "rows hold ids until they are computed again from erased tables; then their past goes"
            return CasePlace(table.name, "derived", held, "open", note)
        return replace(self._purged(table, 0, spellings, run, now), kind="derived")

    def _keys(self, erasure: Erasure, now: datetime) -> Iterator[CasePlace]:
        ids = sorted({each for named in erasure.ids.values() for each in named})
        if self.key_ring and (destroyed := sum(self.key_ring().erase(each, now=now) for each in ids)):
            yield CasePlace("keys of encrypted columns", "keys", destroyed, "erased", "destroyed for ever")
        if self.token_vault and (removed := self.token_vault().forget(ids)):
            yield CasePlace("tokens", "tokens", removed, "erased", "the tokens that others have lead to nobody")

    def _beside(self, spellings: Spellings) -> Iterator[CasePlace]:
        """Redact the ids in files of the home, of the lake and of the landing zone, without Delta tables."""
        without = [self.home / name for name in (*_OWN, *_SERVERS)]
        local = [Path(each) for each in (self.landing, str(self.lake.root)) if each and "://" not in each]
        for folder in sorted(self.home.iterdir()) if self.home.is_dir() else []:
            if folder in without or folder in local:
                continue
            files = files_below(folder, without=local) if folder.is_dir() else iter([folder])
            yield _place(f"home: {folder.name}", redact_files(files, spellings))
        found = redact_store(store_at(self.lake.root), spellings)
        states = [each for each in found.left if each.parts[0] == _CHECKPOINTS]
        others = tuple(each for each in found.left if each not in states)
        yield _place("lake, beside the tables", replace(found, left=others))
        yield from self._states(Counter("/".join(each.parts[1:3]) for each in states))
        if self.landing:
            yield _place("landing zone", redact_store(store_at(self.landing), spellings, by_line=True))

    def _copied(self, spellings: Spellings) -> Iterator[CasePlace]:
        """Look for ids in copies of tables, and redact the run history."""
        for path, rows in copies_with_ids(store_at(self.lake.root), self.lake.names(), spellings).items():
            yield CasePlace(path, "copy", rows, "open", "holds ids until the table is copied again")
        if self.history and (places := redact_history(self.history, spellings)):
            yield CasePlace("run history", "database", places, "erased", "redacted, and its tables are written again")

    def _versions(self, spellings: Spellings) -> Iterator[CasePlace]:
        """Remove noncurrent versions of objects with an id: the last step, as all others leave versions."""
        if is_in_bucket(root := str(self.lake.root)):
            yield erase_versions("lake: versions of objects", root, spellings, held=self._standing())
        if is_in_bucket(self.landing):
            yield erase_versions("landing zone: versions of objects", self.landing, spellings)

    def _standing(self) -> list[str]:
        """List the tables whose versions stay: on legal hold, or to be restored from versions after damage."""
        found = list[str]()
        for name in self.lake.names():
            ledger = self.lake.ledger(name)
            try:
                ledger.state()  # of a damaged log, the holds that can be read need not be all
                found += [name] if holds(ledger) else []
            except PatternError:
                found.append(name)
        return found

    def _states(self, held: Mapping[str, int]) -> Iterator[CasePlace]:
        """Report state files with an id, and states in RocksDB, by query."""
        lake = store_at(self.lake.root)
        for name, count in held.items():
            note = (
                "files of the query's state hold ids until its watermark has passed them, and the files go with the "
                f"micro-batches after that: dedp run {name}"
            )
            yield CasePlace(f"{_CHECKPOINTS}/{name}", "state", count, "open", note)
        files = [each.path.split("/") for each in lake.files(_CHECKPOINTS)]
        packed = {"/".join(each[1:3]) for each in files if each[-1].endswith(_ROCKSDB)}
        for name in sorted(packed - {*held}):
            note = (
                "state in RocksDB, which cannot be searched: once the sources of the query are without the person, "
                "remove the folder, and start the query again"
            )
            figures = {_QUERY: _query_of(lake, f"{_CHECKPOINTS}/{name}/metadata")}
            yield CasePlace(f"{_CHECKPOINTS}/{name}", "state", state="open", note=note, figures=figures)

    def with_persons(self) -> list[Table]:
        """List the tables of the lake that declare persons."""
        return [table for table in map(self._opened, self.lake.names()) if subjects_of(table.spec)]

    def _opened(self, name: str) -> Table:
        return self.tables.get(name) or self.lake.stored(name)


def _fields(tables: Sequence[Table], ids: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return name of a field of records -> ids, by the tables' columns and the paths in their expressions."""
    found: dict[str, set[str]] = {}
    for table in tables:
        for name, column in table.spec.columns.items():
            if column.subject in ids:
                for each in _PATHS.findall(column.subject_by) if column.subject_by else [name]:
                    found.setdefault(each, set()).update(ids[column.subject])
    return found


def _total(before: CasePlace, now: CasePlace) -> CasePlace:
    """Return a place with the rows of earlier runs, or of the plan if a run died after the erasure."""
    if _QUERY in (now.figures or {}):
        return _of_query(before, now)
    if now.kind not in _COUNTED:  # a count of what is left there
        return now
    planned = "of" in (before.figures or {})
    if planned and (now.found or not before.found):
        return now
    state = "erased" if now.state == "nothing" and before.found else now.state
    figures = now.figures
    if figures and now.kind == "bucket":
        figures = {name: number + (before.figures or {}).get(name, 0) for name, number in figures.items()}
    return replace(now, found=before.found + now.found, state=state, figures=figures)


def _of_query(before: CasePlace, now: CasePlace) -> CasePlace:
    """Return the place of a state that cannot be searched: nothing, once another query began."""
    first = (before.figures or {}).get(_QUERY, "")
    if not first or now.figures == before.figures:
        return now
    note = "the query was started again, by a new checkpoint"
    return replace(now, state="nothing", note=note, figures=before.figures)


def _query_of(lake: Store, metadata: str) -> str:
    """Return the id of a checkpoint's query, another one for each new checkpoint; empty if unknown."""
    try:
        return str(json.loads(lake.read(metadata))["id"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def _sources(job: LakeJob) -> list[Source]:
    return [each for each in job.reads if isinstance(each, Source)]


def _of_others(source: Source, since: datetime | None = None) -> CasePlace:
    """Return the place of a source, by the number of records from before the request.

    Args:
        source: the source.
        since: when the request came; ``None`` for a plan, which asks nobody.
    """
    owed = f"{source.owner} deletes the person there; rows that still come are not written"
    if source.older is None or since is None:
        return CasePlace(source.name, "elsewhere", state="owed", note=owed)
    try:
        left = source.older(since)
    except ConfigError as error:
        return CasePlace(source.name, "elsewhere", state="owed", note=f"{owed}; {error}")
    except (PatternError, OSError) as error:
        return CasePlace(source.name, "elsewhere", state="open", note=str(error))
    if not left:
        return CasePlace(source.name, "elsewhere", note="no record is from before the request")
    note = f"{left} records from before the request go with the retention of the topic, or by {source.owner}"
    return CasePlace(source.name, "elsewhere", state="open", note=note)


def _planned(figures: Mapping[str, object]) -> str:
    rest = f", {figures['held']}" if "held" in figures else ""
    return f"{figures['rows']} of {figures['of']} rows, in {figures['files']} files of {figures['bytes']} bytes{rest}"


def _place(name: str, found: Redacted) -> CasePlace:
    if found.left:
        note = f"{len(found.left)} files cannot be redacted, such as {found.left[0]}: make them again, and remove these"
        return CasePlace(name, "files", found.places, "open", note)
    return CasePlace(name, "files", found.places, "erased" if found.places else "nothing", f"{found.done} files")


def _texts_of(table: Table) -> list[str]:
    """List the columns of texts, bytes and nested values that are not of the class public."""
    fields = table.read().schema.fields
    open_ = {name.lower() for name, column in table.spec.columns.items() if column.classification == "public"}
    return [each.name for each in fields if isinstance(each.dataType, _TEXTS) and each.name.lower() not in open_]


def _rows_with_ids(table: Table, spellings: Spellings) -> int:
    """Count the rows of a table that may hold an id in a text; the ids are closed over and in no plan."""

    def hold(texts: pa.Array) -> pa.Array:
        return pa.array([bool(text) and spellings.may_name(text) for text in texts.to_pylist()], pa.bool_())

    rows: DataFrame = table.read()
    kinds = {each.name: each.dataType for each in rows.schema.fields}
    texts = [_bytes_of(name, kinds[name]) for name in _texts_of(table)]
    found = arrow_udf(hold, T.BooleanType())(F.concat_ws("\n", *texts).cast("binary"))  # type: ignore[call-overload]
    return rows.filter(found).count()


def _bytes_of(name: str, kind: T.DataType) -> Column:
    column = F.col(identifier(name))
    if isinstance(kind, T.BinaryType):
        return F.decode(column, "ISO-8859-1")
    return column if isinstance(kind, T.StringType) else F.to_json(F.struct(column))
