"""Published contracts by version: promised columns and service level, agreement of rows and declaration."""

import hashlib
from dataclasses import replace
from pathlib import Path

import dedp_assets.case_study.defs as case_study
from dedp_assets.graph.catalogue.contracts import ContractFolder
from dedp_assets.graph.checks.contract_states import ContractState, contract_states, judge_contract_states
from dedp_assets.graph.declare import (
    About,
    Every,
    Gates,
    Inputs,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    Touches,
    declared,
    lake_table,
)
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, audit_write_audit_publish

SOURCE = Source(
    "contracts/documents",
    "The published contracts: a document of the Open Data Contract Standard per table, written by `dedp contract`.",
    kinds=("file", "yaml"),
    owner="team:platform",
)
CONTRACTS = TableSpec(
    "platform/contracts",
    {
        "dataset": Column("STRING", "table with the contract", required=True),
        "version": Column("STRING", "version of the contract, major.minor.patch", required=True),
        "status": Column("STRING", "active, or retired: replaced by another version, or withdrawn", required=True),
        "owner": Column("STRING", "who answers for the table", required=True),
        "published_at": Column("TIMESTAMP", "when the version was published; NULL if the document does not say it"),
        "consumers": Column("ARRAY<STRING>", "who reads the table", required=True),
        "columns": Column("BIGINT", "promised columns", required=True),
        "fresh_hours": Column("DOUBLE", "promised greatest age of the newest data, in hours; NULL for any"),
        "due": Column("STRING", "promised deadline of a day's rows; NULL for none"),
        "notice_days": Column("BIGINT", "days from the announcement of a breaking change to the change", required=True),
        "written_under": Column("STRING", "version that the table's newest commit of rows names; NULL for none"),
        "is_current": Column("BOOLEAN", "whether that is this version; NULL for a table without rows"),
        "drift": Column("STRING", "difference of the declaration: none, compatible, or breaking", required=True),
        "differences": Column("STRING", "the differences in words; NULL for none"),
    },
    key=("dataset", "version"),
    checks={
        "known_status": "status IN ('active', 'retired')",
        "known_drift": "drift IN ('none', 'compatible', 'breaking')",
    },
    comment="One row per gold table and published version of its contract. A retired version is as it was seen last.",
)
FOLDER = ContractFolder(Path(case_study.__path__[0]) / "contracts")
REPORT = "contracts_are_current"
REPORTS = {
    REPORT: "Warns of tables whose newest rows were written under another version than the published one, and of "
    "declarations that differ from the published contract."
}
_RETIRED = ", ".join("'retired' AS status" if name == "status" else name for name in CONTRACTS.columns)
EARLIER = f"""
    SELECT * FROM {{published}} UNION ALL
    SELECT {_RETIRED} FROM {{known}} LEFT ANTI JOIN {{published}} USING (dataset, version)
"""  # noqa: S608 - names of columns


def published(request: Request, lake: Lake) -> Inputs:
    """Read the documents and the newest commits of the tables; equal states need no new version of the table."""
    states = contract_states(declared(case_study), FOLDER, lake.ledger, request.at)
    return Inputs({SOURCE.name: hashlib.sha256(repr(states).encode()).hexdigest()}, found=states)


@lake_table(
    CONTRACTS,
    reads=Reads(sources=[SOURCE], inputs=published, touches=Touches(whole_lake=True)),
    runs=Runs(
        when=Every(
            "40 4 * * *",
            name="contracts_every_night",
            description="At 04:40 UTC, after the nightly loads: the published contracts, held against the tables.",
        ),
        job="list_contracts",
    ),
    gates=Gates(reports=REPORTS, if_empty="A project with this table has published contracts."),
    about=About(
        owner="team:platform",
        used_by="whoever asks which promise rows were written under",
        figures={"behind": "tables written under another version", "drifted": "changed declarations"},
        unchecked={
            "freshness": "written when a contract changes, or the version that rows are written under",
            "completeness": "each run lists all published contracts",
        },
    ),
    patterns=[audit_write_audit_publish],
)
def contracts(step: Step, into: Target) -> WriteResult:
    """Write the states of the published contracts, and keep replaced versions as retired."""
    states: list[ContractState] = step.inputs.found
    verdict = judge_contract_states(REPORT, states)
    kinds = ", ".join(f"{name} {column.type}" for name, column in CONTRACTS.columns.items())
    rows = into.table.session.createDataFrame([_row(each) for each in states], kinds)
    if into.table.ledger.exists():
        rows = into.table.session.sql(EARLIER, published=rows, known=into.table.read())
    written = audit_write_audit_publish(rows, into.reading(findings=[verdict]))
    return replace(written, figures={**written.figures, **verdict.figures})


def _row(state: ContractState) -> tuple[object, ...]:
    """Return a published contract as a row."""
    contract, sla = state.contract, state.contract.sla
    return (
        contract.name,
        contract.version,
        "active",
        contract.owner,
        contract.published_at,
        [each.name for each in contract.consumers],
        len(contract.columns),
        sla.fresh_hours if sla.fresh_hours is None else float(sla.fresh_hours),
        sla.deadline if sla.due else None,
        contract.notice_days,
        state.written_under or None,
        state.is_current,
        state.drift,
        "; ".join(state.differences) or None,
    )
