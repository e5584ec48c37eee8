"""States of published contracts: version of the newest rows, and drift of the declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dedp_assets.graph.catalogue.contracts import ContractFolder
from dedp_assets.graph.checks.contracts import Tables, judge_declaration, with_contract
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.delta import Commit, Ledger
from dedp_assets.patterns.governance.data_contract import Contract

__all__ = ["ContractState", "Drift", "contract_states", "judge_contract_states"]

Drift = Literal["none", "compatible", "breaking"]
"""Effect of a changed declaration on the consumers of the published contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractState:
    """A published contract, held against the declaration and the newest commit of the table.

    Attributes:
        contract: the published contract.
        is_written: whether the table has a commit of rows.
        written_under: version that the newest commit of rows names; empty if it names none.
        drift: difference of the declaration from the contract.
        differences: the differences in words.
    """

    contract: Contract
    is_written: bool = False
    written_under: str = ""
    drift: Drift = "none"
    differences: Sequence[str] = ()

    @property
    def is_current(self) -> bool | None:
        """Agreement of the newest commit of rows with the published version.

        ``None`` for a table without rows.
        """
        return self.written_under == self.contract.version if self.is_written else None

    @property
    def troubles(self) -> tuple[str, ...]:
        """The reasons why rows or declaration are not as published, in words."""
        version = self.contract.version
        behind = f"written under {self.written_under or 'no contract'}, published is {version}"
        drifted = f"declared with {self.drift} differences from {version}: {'; '.join(self.differences)}"
        return (
            *([behind] if self.is_current is False else []),
            *([drifted] if self.drift != "none" else []),
        )


def contract_states(
    tables: Tables, folder: ContractFolder, ledger_of: Callable[[str], Ledger], now: datetime
) -> list[ContractState]:
    """Return the state of each published contract, by the documents and the logs of the tables.

    Args:
        tables: the declared tables.
        folder: the published contracts.
        ledger_of: opens the log of a table by name.
        now: current time, with time zone.
    """
    return [*_states(tables, folder, ledger_of, now)]


def judge_contract_states(name: str, states: Sequence[ContractState]) -> Finding:
    """Judge whether all rows and declarations are as published.

    Args:
        name: name of the check.
        states: the states of the contracts.

    Returns:
        A warning that names each table with newest rows of another version, or with a declaration that differs.
    """
    found = {each.contract.name: "; ".join(each.troubles) for each in states if each.troubles}
    note = "\n".join(f"{table}: {trouble}" for table, trouble in found.items())
    figures = {
        "contracts": len(states),
        "behind": sum(each.is_current is False for each in states),
        "drifted": sum(each.drift != "none" for each in states),
    }
    return Finding(name, passed=not found, severity="warn", figures=figures, note=note)


def _states(
    tables: Tables, folder: ContractFolder, ledger_of: Callable[[str], Ledger], now: datetime
) -> Iterator[ContractState]:
    for name in with_contract(tables, folder):
        contract, judged = folder.published(name), judge_declaration(tables, name, folder, now)
        if contract is None or judged is None:
            continue
        commit = _newest(ledger_of(name))
        record = commit.record if commit else None
        named = record.notes.get("contracts", {}) if record else {}
        yield ContractState(
            contract=contract,
            is_written=commit is not None,
            written_under=str(named.get(name, "")),
            drift=_drift(judged),
            differences=tuple(judged.figures["differences"]),
        )


def _drift(judged: Finding) -> Drift:
    if judged.figures["breaking"]:
        return "breaking"
    return "compatible" if judged.figures["differences"] else "none"


def _newest(ledger: Ledger) -> Commit | None:
    """Return the newest commit of rows, of any writer; maintenance of files keeps the rows."""
    return ledger.last(lambda commit: commit.record or commit.changed)
