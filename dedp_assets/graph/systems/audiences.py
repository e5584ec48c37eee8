"""Audiences of a project: policies of tables, record of changes, and reader by policy and purpose.

A project declares its policies once, as an object of its own. Runs that apply them put each change on record; notebooks
open tables by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame

from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.policies import Policy
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.governance.purpose_based_access_control import (
    AccessRequest,
    AccessRules,
    Grants,
    open_for,
    request_access,
)
from dedp_assets.patterns.security.fine_grained_accessor_for_tables import PolicyLog, read_for

__all__ = ["Audiences"]

_LOG = "policies.jsonl"


@dataclass(frozen=True, slots=True)
class Audiences:
    """The policies of a project's tables, by table.

    Attributes:
        policies: table -> its policies; a table is ``layer/dataset``, or ``schema.table`` of a database.
        rules: purposes and tiers of :meth:`open`; the guide's, without qualified users, unless stated.
    """

    policies: Mapping[str, Sequence[Policy]]
    rules: AccessRules = field(default_factory=AccessRules)

    @property
    def log(self) -> PolicyLog:
        """The record of all changes of policies, in the home."""
        return PolicyLog(settings().home / _LOG)

    @property
    def grants(self) -> Grants:
        """The grants by purpose and the audit of all decisions, in the home."""
        return Grants.of(settings().home)

    def of(self, table: str) -> Sequence[Policy]:
        """Return the declared policies of a table.

        Raises:
            ConfigError: for a table without a policy, of which nothing is shown.
        """
        if table not in self.policies:
            raise ConfigError(
                f"table must be one with policies ({', '.join(sorted(self.policies))}), not {table}: nothing is shown"
            )
        return self.policies[table]

    def changed(self, table: str) -> bool:
        """Return whether the declared policies of a table differ from the record."""
        return {each.digest for each in self.log.current(table)} != {each.digest for each in self.of(table)}

    def in_force(self, table: str, run: Provenance) -> Sequence[Policy]:
        """Return the policies of a table, with their changes put on record as of a run.

        Args:
            table: name of the table.
            run: the run that applies the policies; of a change, the first such run is on record.

        Raises:
            ConfigError: for a table without a policy, or a run without a time.
        """
        if run.at is None:
            raise ConfigError(
                "run must say when it began (at), not None: changes of policies are on record with a time"
            )
        by = f"run {run.run_id} of {run.asset}, code {run.code_version}"
        self.log.declare(table, self.of(table), by=by, at=run.at)
        return self.of(table)

    def read(
        self,
        table: Table,
        audience: str,
        key: MaskingKey | None = None,
        *,
        version: int | str | None = None,
        partitions: Sequence[Mapping[str, str]] = (),
    ) -> DataFrame:
        """Read a table by the policy of an audience; lazy.

        Args:
            table: the table.
            audience: who reads.
            key: key of hashes.
            version: version, instant or milestone; the newest version if ``None``.
            partitions: partitions to read, by columns that the audience sees in the clear.

        Raises:
            ConfigError: for a table or an audience without a policy, to which nothing is shown.
        """
        policies = self.of(table.name)
        return read_for(table, key, policies=policies, audience=audience, version=version, partitions=partitions)

    def request(self, table: Table, ask: AccessRequest, *, at: datetime, approved_by: str = "") -> Access:
        """Grant or deny a table to a person for a purpose and eight hours, with a row in the audit.

        Args:
            table: the table.
            ask: the person, the purpose and the reason.
            at: current time, with time zone.
            approved_by: who approves, as whoever authenticated them says; empty for a request without approval.
        """
        return request_access([table], ask, self.grants, at=at, approved_by=approved_by, rules=self.rules)

    def open(
        self, table: Table, audience: str, ask: AccessRequest, key: MaskingKey | None = None, *, at: datetime
    ) -> DataFrame:
        """Open a table for a person of an audience and a purpose, with a row in the audit; lazy.

        The stricter of the audience's policy and the purpose holds. Before, a grant was requested.

        Args:
            table: the table.
            audience: who reads.
            ask: the person, the purpose and the reason.
            key: key of hashes.
            at: current time, with time zone.

        Raises:
            Denied: without a grant that stands; the refusal is in the audit as well.
            ConfigError: for a table or an audience without a policy, to which nothing is shown.
        """
        policies = {each.audience: each for each in self.of(table.name)}
        if audience not in policies:
            raise ConfigError(f"{audience} has no policy for {table.name}, so that nothing is shown: declare one")
        also = {table.name: policies[audience]}
        return open_for([table], ask, self.grants, key, at=at, rules=self.rules, also=also)[table.name]
