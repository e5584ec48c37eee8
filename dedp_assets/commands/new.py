"""``dedp new``: project in a new folder, with a landing and a gold table in YAML.

Examples:
    dedp new my_lake
"""

from __future__ import annotations

import argparse
import json
import keyword
import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from dedp_assets.commands._output import say
from dedp_assets.graph.resources.environments import Settings, home_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.delta import Store, store_at

__all__ = ["arguments", "create", "run"]

TEMPLATE = Path(__file__).resolve().parents[1] / "template"
"""The files of a project; ``my_lake`` stands for the name, a suffix ``.template`` keeps tools from reading them."""
_NAME = "my_lake"
_SUFFIX = ".template"
_SAMPLE = Path("tests") / "sample"
_MARKER = "_SUCCESS"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder."""
    parser.add_argument("folder", type=Path, help="folder to make; its name becomes that of the package")


def run(settings: Settings, chosen: argparse.Namespace) -> int:
    """Make the project."""
    return create(chosen.folder, landing=settings.stated_landing)


def create(folder: Path, *, landing: str = "") -> int:
    """Make a project with deliveries in the landing zone, and print the next steps; return the exit code.

    Args:
        folder: a folder that does not exist, or is empty; its name becomes that of the project and of its package.
        landing: where its landing zone is, a folder or a prefix of a bucket; in the project's home by default.

    Raises:
        ConfigError: if the name cannot be that of a package, or there is something in the folder.
    """
    root = folder.absolute()
    _require_name(root.name)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ConfigError(f"folder must be new or empty, not {folder}, which holds something: `dedp new my_lake`")
    files = [path for path in sorted(TEMPLATE.rglob("*")) if path.is_file()]
    for path in files:
        _write(path, root / _place(path.relative_to(TEMPLATE), root.name), root.name)
    zone = store_at(landing or home_of(root) / "landing")
    for dataset in (root / _SAMPLE).iterdir():
        if not zone.has_files(dataset.name):
            _deliver(dataset, zone.within(dataset.name))
    _write_schema(root / ".dedp" / "schema.json")
    shown = os.path.relpath(root)
    say(f"{shown}: {len(files)} files, and deliveries of three days in {landing or os.path.relpath(zone.address)}")
    say(f"next: `cd {shown}; dedp up` loads them, and shows everything at http://127.0.0.1:3000")
    return 0


def _require_name(name: str) -> None:
    """Refuse a name that is no package name, or the name of an installed package."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise ConfigError(
            f"folder must be called like a Python package (letters, digits and _), not {name}: `dedp new my_lake`"
        )
    if (found := find_spec(name)) and found.origin:  # a folder without code has none
        raise ConfigError(f"folder must have a name that no installed package has, not {name}: `dedp new my_lake`")


def _place(path: Path, name: str) -> Path:
    """Return the path in a project of a file of the template."""
    stated = path.as_posix().replace(_NAME, name).removesuffix(_SUFFIX)
    return Path(stated.replace("dot_", "."))


def _write(source: Path, target: Path, name: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    text = source.read_text(encoding="utf-8")
    target.write_text(text.replace(_NAME, name).replace("{version}", _version()), encoding="utf-8")


def _deliver(sample: Path, target: Store) -> None:
    """Copy deliveries, data before markers, as a source system delivers."""
    files = sorted((path for path in sample.rglob("*") if path.is_file()), key=lambda path: path.name == _MARKER)
    for path in files:
        target.put(path.relative_to(sample).as_posix(), path.read_bytes())


def _version() -> str:
    """Return the version of this package; 0 if the package is not installed."""
    try:
        return version("dedp")
    except PackageNotFoundError:
        return "0"


def _write_schema(file: Path) -> None:
    """Write the JSON schema for editors, if the extra for tables in YAML is installed."""
    try:
        from dedp_assets.components.commands import schema_of_files  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(schema_of_files(), indent=1), encoding="utf-8")
