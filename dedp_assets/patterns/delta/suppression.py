"""Suppression list: keyed one-way hashes of persons whose rows are not written again after an erasure.

Late files, replays, backfills and older exports bring rows of a person who asked to be forgotten. The list cannot name
the person, or it would be one more place to erase: it holds a keyed hash of each id. One file for each request lies in
the lake, so that all platforms that write there share the list, and a request that is repeated is one request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Literal, get_args

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BooleanType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey, keyed_digest, keyed_digests
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import ERASED
from dedp_assets.patterns.core.running.permissions import extended_to
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["MARK", "SuppressionList", "subjects_of"]

MARK = f"{RESERVED}erased"
"""Boolean column: whether the row is of an erased person."""
_PROOF = "the suppression list"
Step = Literal["executed", "purged"]
"""Step of an erasure after its request."""
_STEPS: tuple[Step, ...] = get_args(Step)


def subjects_of(spec: TableSpec, among: Collection[str] | None = None) -> dict[str, list[str]]:
    """List the SQL expressions of persons' ids in a row, by kind of person.

    Args:
        spec: declaration of a table.
        among: columns that the rows have; all of them, if ``None``.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> by = "get_json_object(raw, '$.user_id')"
        >>> subjects_of(TableSpec("visits", {"raw": Column("STRING", subject="user", subject_by=by)}))
        {'user': ["get_json_object(raw, '$.user_id')"]}
    """
    found: dict[str, list[str]] = {}
    held = {name.lower() for name in (spec.columns if among is None else among)}
    for name, column in spec.columns.items():
        if column.subject and name.lower() in held:
            found.setdefault(column.subject, []).append(column.subject_by or identifier(name))
    return found


@dataclass(frozen=True, slots=True)
class SuppressionList:
    """The ids of erased persons, as keyed hashes, in a folder with one file for each request.

    Attributes:
        store: the folder.
        key: the key of the hashes, or a function that gives the key once somebody is on the list. Whoever has the key
            can try out ids, so it stays out of the folder.
    """

    store: Store
    key: MaskingKey | Callable[[], MaskingKey]

    def add(self, request: str, ids: Mapping[str, Collection[str]], *, at: datetime, because: str) -> bool:
        """Add the persons of a request; return whether the request is new, and not a repeated one.

        Args:
            request: name of the request, such as a ticket.
            ids: kind of person -> ids.
            at: time of the request, with a time zone.
            because: reason, for people; without the id.

        Raises:
            ConfigError: for an empty name or id, or a known request that named other persons.
        """
        if not request.strip() or "/" in request:
            raise ConfigError(f"request must be a name without '/', such as a ticket, not {request!r}")
        if any(not each.strip() for named in ids.values() for each in named):
            raise ConfigError("ids must name persons, not be empty")
        digests = {kind: sorted(self._digest(kind, each) for each in {*named}) for kind, named in ids.items()}
        note = {"request": request, "at": at.isoformat(), "because": because, "key": self._proof(), "persons": digests}
        try:
            with extended_to(self.store.address):
                self.store.put_if_absent(f"{request}.json", json.dumps(note).encode())
        except FileExistsError:
            known = json.loads(self.store.read(f"{request}.json"))["persons"]
            if any({*named} - {*known.get(kind, ())} for kind, named in digests.items()):
                raise ConfigError(f"request {request} must name the persons that it named before, not others") from None
            return False
        return True

    def lift(self, request: str) -> None:
        """Take the persons of a request from the list, as for a person who registers again by a former id."""
        with extended_to(self.store.address):
            self.store.delete(f"{request}.json", *(f"{request}.{step}" for step in _STEPS))

    def note(self, requests: Collection[str], step: Step, at: datetime) -> None:
        """Note the time of a step of requests; the first time of a step stays.

        Args:
            requests: names of the requests.
            step: ``executed`` once no current version has rows of the persons, ``purged`` once no file has.
            at: time of the step, with a time zone.
        """
        for request in requests:
            with suppress(FileExistsError), extended_to(self.store.address):
                self.store.put_if_absent(f"{request}.{step}", at.isoformat().encode())

    def times(self, request: str) -> Mapping[str, datetime]:
        """Return the times of a request by step: ``requested``, ``executed``, ``purged``.

        Without steps that are not done yet; empty for an unknown request.
        """
        if not self.store.exists(f"{request}.json"):
            return {}
        found = {"requested": datetime.fromisoformat(json.loads(self.store.read(f"{request}.json"))["at"])}
        for step in _STEPS:
            if self.store.exists(f"{request}.{step}"):
                found[step] = datetime.fromisoformat(self.store.read(f"{request}.{step}").decode())
        return found

    def digests(self) -> Mapping[str, frozenset[str]]:
        """Read the list: kind of person -> keyed hashes of ids.

        Raises:
            ConfigError: if the list was made with another key.
        """
        found: dict[str, set[str]] = {}
        for name in self.store.list():
            if not name.endswith(".json") or name.startswith("."):
                continue
            note: dict[str, Any] = json.loads(self.store.read(name))
            if note["key"] != self._proof():
                raise ConfigError(
                    f"the key {self.masking_key().id} must be the one of the suppression list in {self.store.uri}, not "
                    "another one: set DEDP_MASKING_KEY to the key of the platform that made the list"
                )
            for kind, digests in note["persons"].items():
                found.setdefault(kind, set()).update(digests)
        return {kind: frozenset(digests) for kind, digests in found.items()}

    def state(self) -> str:
        """Return a digest of the requests on the list; empty without a request."""
        names = sorted(name for name in self.store.list() if name.endswith(".json") and not name.startswith("."))
        return hashlib.sha256("/".join(names).encode()).hexdigest()[:16] if names else ""

    def among(self, kind: str, ids: Collection[str]) -> frozenset[str]:
        """Return the ids that are on the list."""
        listed = self.digests().get(kind, frozenset())
        return frozenset(each for each in ids if self._digest(kind, each) in listed)

    def hashed(self, kind: str, ids: Collection[str]) -> frozenset[str]:
        """Return the keyed hashes of ids, as on the list."""
        return frozenset(self._digest(kind, each) for each in ids)

    def without(self, rows: DataFrame, kind: str, column: str) -> DataFrame:
        """Leave out the rows of persons on the list; lazy.

        Args:
            rows: the rows.
            kind: kind of person.
            column: column with the id; a row with NULL is nobody's and stays.
        """
        listed = self.digests().get(kind)
        return rows.filter(~self.listed(F.col(identifier(column)), kind, listed)) if listed else rows

    def left_out(self, source: DataFrame, spec: TableSpec) -> DataFrame:
        """Leave out the rows of persons on the list from the source of a merge; lazy."""
        mark = self._mark(source, spec)
        return source if mark is None else source.filter(~mark)

    def apart(self, split: Split, spec: TableSpec) -> tuple[Split, str]:
        """Tell the rows of persons on the list from the others; lazy.

        Args:
            split: rows that go into the table, or into others along with the table's.
            spec: declaration of the table, with the columns that name persons.

        Returns:
            The rows, with an outcome of their own for those of the persons; of plain rows with a further column, and
            the SQL predicate of the rows to write. The split itself, and no predicate, if nobody is on the list.

        Raises:
            ConfigError: for an expression of ids that cannot be computed of the rows.
        """
        mark = self._mark(split.rows, spec)
        if mark is None:
            return split, ""
        if not split.outcome:
            return replace(split, rows=split.rows.withColumn(MARK, mark)), f"NOT {MARK}"
        outcome = F.when(mark, F.lit(ERASED)).otherwise(F.col(identifier(split.outcome)))
        return replace(split, rows=split.rows.withColumn(split.outcome, outcome), parts={**split.parts, ERASED: ()}), ""

    def _mark(self, rows: DataFrame, spec: TableSpec) -> Column | None:
        """Return whether each row is of a person on the list; ``None`` if no row can be."""
        found = subjects_of(spec, rows.columns)
        listed = self.digests() if found else {}
        ids = [(kind, sql) for kind, expressions in found.items() for sql in expressions if listed.get(kind)]
        try:
            marks = [self.listed(F.expr(sql), kind, listed[kind]) for kind, sql in ids]
            if marks:
                rows.select(*marks).columns  # noqa: B018 - analyses the expressions
        except AnalysisException as error:
            named = ", ".join(sql for _, sql in ids)
            raise ConfigError(f"{spec.name}: subject_by must be SQL over the table's columns, not {named}") from error
        return reduce(or_, marks) if marks else None

    def listed(self, ids: Column, kind: str, digests: Collection[str]) -> Column:
        """Return whether each id's hash is among the hashes; false for NULL; lazy.

        The key is closed over and in no plan.
        """
        among, key = frozenset(digests), self.masking_key().of(_PROOF)

        def are_listed(values: pa.Array) -> pa.Array:
            digest = keyed_digests(key, kind)
            return pa.array([value is not None and digest(value) in among for value in values.to_pylist()], pa.bool_())

        found: Column = arrow_udf(are_listed, BooleanType())(ids.cast("string"))  # type: ignore[call-overload]
        return found

    def masking_key(self) -> MaskingKey:
        """Return the key of the hashes."""
        return self.key() if callable(self.key) else self.key

    def _digest(self, kind: str, value: str) -> str:
        return keyed_digest(self.masking_key().of(_PROOF), kind, value)

    def _proof(self) -> str:
        return keyed_digest(self.masking_key().of(_PROOF), "key", "")
