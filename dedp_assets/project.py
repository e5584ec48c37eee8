"""The project around the working directory: folder, modules, definitions and declared tables."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import tomli
import yaml

from dedp_assets.graph.resources.environments import CHECKOUT, project_root
from dedp_assets.patterns.core.extras import extra_of

if TYPE_CHECKING:
    import dagster as dg

    from dedp_assets.graph.catalogue.contracts import ContractFolder
    from dedp_assets.graph.declare import LakeJob, LakeTable

__all__ = ["Project", "project"]

_CASE_STUDY = "dedp_assets"
_CODE = (".py", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Project:
    """A project of Dagster, from the table ``tool.dg.project`` of ``pyproject.toml``.

    Attributes:
        root: folder of the project.
        root_module: package with the code.
        module: module with the definitions.
        name: name of the code location.
    """

    root: Path
    root_module: str
    module: str
    name: str

    @property
    def is_case_study(self) -> bool:
        """``True`` for the case study, which has source systems and servers besides the tables."""
        return self.root_module == _CASE_STUDY

    @property
    def locations(self) -> list[Project]:
        """This code location, and the further code locations in the project's ``workspace.yaml``."""
        file = self.root / "workspace.yaml"
        named = yaml.safe_load(file.read_text(encoding="utf-8"))["load_from"] if file.is_file() else []
        modules = [each["python_module"] for each in named if "python_module" in each]
        found = [replace(self, module=each["module_name"], name=each["location_name"]) for each in modules]
        return [self, *(each for each in found if each.name != self.name)]

    def require_case_study(self, what: str) -> None:
        """Refuse a project that is not the case study.

        Raises:
            ValueError: in one sentence.
        """
        if not self.is_case_study:
            raise ValueError(f"{what} belongs to the case study: run this in a checkout of it, not in {self.root}")

    @property
    def paths(self) -> list[str]:
        """Folders that Python has to look in for the project's modules."""
        return [str(folder) for folder in (self.root / "src", self.root) if folder.is_dir()]

    def code(self) -> Iterator[Path]:
        """Yield the folders with the code of the location: of the project, and of this package."""
        for folder in self.paths:
            yield from (each.parent for each in Path(folder).glob("*/__init__.py") if each.parent.name != "tests")
        yield from () if self.root == CHECKOUT else (CHECKOUT / _CASE_STUDY,)

    def stamp(self) -> tuple[int, int]:
        """Return a stamp of the code: number of files, and newest change in ns since 1970."""
        changed = [0]
        for folder in self.code():
            for path in folder.rglob("*"):
                if path.suffix in _CODE:
                    with suppress(FileNotFoundError):  # an editor puts another file in its place
                        changed.append(path.stat().st_mtime_ns)
        return len(changed), max(changed)

    def definitions(self) -> dg.Definitions:
        """Load the definitions.

        Raises:
            ValueError: if the module holds none under the name ``defs``, or cannot be imported: file, line and reason.
        """
        found: Any = getattr(self.entry(), "defs", None)
        if found is None:
            raise ValueError(f"{self.module} must have definitions under the name defs, as `dedp new` writes it")
        try:
            loaded: dg.Definitions = found() if callable(found) else found
        except Exception as error:
            self._raise_fault(error, itself=True)
        return loaded

    def entry(self) -> ModuleType:
        """Import the module with the definitions.

        Raises:
            ValueError: if there is none, or it cannot be imported: file, line and reason.
        """
        self.be_importable()
        try:
            return importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            if error.name and f"{self.module}.".startswith(f"{error.name}."):
                file = self.root / "pyproject.toml"
                raise ValueError(f"{file} must name a module that is there, not {self.module}") from None
            if extra_of(error.name):
                raise
            self._raise_fault(error)
        except Exception as error:
            self._raise_fault(error)

    def _raise_fault(self, error: Exception, *, itself: bool = False) -> NoReturn:
        """Raise the fault of the project's code that an error stands for, or the error of other code.

        With ``itself``, code that the project calls is other code: where in it an error was raised may have to be read.
        """
        from dedp_assets.components.modules import Unloadable, fault_of_import  # noqa: PLC0415 - as below

        if fault := fault_of_import(error, self.root, itself=itself):
            raise Unloadable(fault) from error
        raise error

    def tables(self) -> list[LakeTable[...]]:
        """List the declared tables, in Python and YAML."""
        from dedp_assets.location import lake_tables  # noqa: PLC0415 - the graph, which not every command needs

        self.be_importable()
        return lake_tables(self.root)

    def declarations(self, resources: Collection[str] | None = None) -> tuple[list[LakeTable[...]], list[str]]:
        """Return the tables of all code locations, and the faults of declarations.

        The table of a declaration with a fault is left out.

        Of a further code location those in Python count, below the package of its definitions.

        Args:
            resources: names of the resources in the definitions; ``None`` if nobody knows them.
        """
        from dedp_assets.components.modules import in_modules  # noqa: PLC0415 - as above
        from dedp_assets.location import lake_declarations  # noqa: PLC0415 - as above

        self.be_importable()
        tables, faults = lake_declarations(self.root, resources)
        for location in self.locations[1:]:
            found = in_modules(importlib.import_module(location.module.rpartition(".")[0]))
            tables += found.tables
            faults += [str(fault) for _, wrong in found.refused.values() for fault in wrong]
        return tables, faults

    def jobs(self) -> list[LakeJob]:
        """List the declared jobs."""
        from dedp_assets.location import lake_jobs  # noqa: PLC0415 - as above

        self.be_importable()
        return lake_jobs(self.root)

    def contracts(self) -> ContractFolder:
        """Return the folder with the published contracts of the tables."""
        from dedp_assets.location import lake_contracts  # noqa: PLC0415 - as above

        self.be_importable()
        return lake_contracts(self.root)

    def be_importable(self) -> None:
        """Let this process import the project's modules, installed or not."""
        sys.path[:0] = [folder for folder in self.paths if folder not in sys.path]


def project(folder: Path | None = None) -> Project:
    """Return the project around a folder, by default the working directory, otherwise the checkout.

    Args:
        folder: a folder in the project.

    Raises:
        ValueError: if there is neither, or ``pyproject.toml`` names no module.
    """
    root = project_root(folder)
    if root is None:
        raise ValueError(
            f"there is no project in {folder or Path.cwd()} or above: go to the folder of one, or make one by "
            "`dedp new my_lake`"
        )
    file = root / "pyproject.toml"
    stated = tomli.loads(file.read_text(encoding="utf-8"))["tool"]["dg"]["project"]
    if not stated.get("root_module"):
        raise ValueError(f"{file}: tool.dg.project must name the package with the code: root_module = ...")
    module = stated.get("code_location_target_module") or f"{stated['root_module']}.definitions"
    return Project(root, stated["root_module"], module, stated.get("code_location_name") or root.name)
