"""Published data contracts of a project: documents in a folder, and their versions in the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.leaving import require_may_leave
from dedp_assets.patterns.governance._documents import contract_document, read_contract
from dedp_assets.patterns.governance.data_contract import ChangeRequest, Contract

__all__ = ["CONTRACT", "ContractFolder", "with_contracts"]

CONTRACT = "contract"
"""Key of an asset's metadata with the version of the published contract."""
_ANNOUNCED = ".change.yaml"
# Each process that loads the definitions reads every document: libyaml takes a tenth of the time.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class ContractFolder:
    """The folder with the published contracts and the announced changes of a project.

    Attributes:
        path: the folder; ``<layer>/<dataset>.yaml`` is a document.
    """

    path: Path

    def names(self) -> list[str]:
        """List the tables with a published contract, sorted."""
        found = (file for file in self.path.glob("*/*.yaml") if not file.name.endswith(_ANNOUNCED))
        return sorted(file.relative_to(self.path).with_suffix("").as_posix() for file in found)

    def published(self, name: str) -> Contract | None:
        """Read the published contract of a table.

        ``None`` without one.

        Raises:
            ConfigError: for a document that is no contract of the table.
        """
        document = self._read(self.path / f"{name}.yaml")
        if document is None:
            return None
        try:
            contract = read_contract(document)
        except ConfigError as error:
            raise ConfigError(f"{self.path / name}.yaml: {error}") from None
        if contract.name != name:
            raise ConfigError(f"{self.path / name}.yaml must be the contract of {name}, not of {contract.name}")
        return contract

    def publish(self, contract: Contract) -> Path:
        """Write the document of a contract, and remove the announcement of a change.

        Raises:
            ConfigError: for a secret column, which no contract promises, and for columns that nobody classified.
        """
        require_may_leave(contract.name, contract.columns, "contract", to="its contract", instead="")
        file = self._write(self.path / f"{contract.name}.yaml", contract_document(contract))
        self._announcement(contract.name).unlink(missing_ok=True)
        return file

    def announced(self, name: str) -> ChangeRequest | None:
        """Read the announced change of a table's contract.

        ``None`` without one.
        """
        stated = self._read(self._announcement(name))
        return None if stated is None else ChangeRequest.from_dict(stated)

    def announce(self, request: ChangeRequest) -> Path:
        """Write the announcement of a change, with the acknowledgements."""
        return self._write(self._announcement(request.contract), request.as_dict())

    def _announcement(self, name: str) -> Path:
        return self.path / f"{name}{_ANNOUNCED}"

    def _read(self, file: Path) -> Any:  # noqa: ANN401 - whatever a file of YAML holds
        if not file.is_file():
            return None
        try:
            stated = yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
        except yaml.YAMLError as error:
            raise ConfigError(f"{file} must be YAML, which it is not: {error}") from None
        if not isinstance(stated, dict):
            raise ConfigError(f"{file} must hold keys and values, not {stated!r}")
        return stated

    def _write(self, file: Path, stated: Any) -> Path:  # noqa: ANN401 - as above
        file.parent.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(stated, sort_keys=False, allow_unicode=True, width=120)
        file.write_text(text, encoding="utf-8")
        return file


def with_contracts(definitions: dg.Definitions, folder: ContractFolder) -> dg.Definitions:
    """Return definitions in which each asset with a published contract names the contract's version.

    The runs of an asset write the version into the commit record.

    Args:
        definitions: the definitions of a code location.
        folder: its published contracts.
    """
    versions = {name: contract.version for name in folder.names() if (contract := folder.published(name))}
    if not versions:
        return definitions

    def named(spec: dg.AssetSpec) -> dg.AssetSpec:
        version = versions.get("/".join(spec.key.path))
        return spec.merge_attributes(metadata={CONTRACT: version}) if version else spec

    return definitions.map_asset_specs(func=named)
