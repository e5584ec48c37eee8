"""``python -m docs.site [--builder mkdocs|zensical|none] [FOLDER]``: write the pages, and build the site."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from docs.site.assembling import PICTURES, navigation, pages
from docs.site.pages import CHECKOUT

__all__ = ["main", "write"]

_BUILDERS = ("mkdocs", "zensical")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, and build the site; return the builder's exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description="The site of the documentation.")
    parser.add_argument("folder", nargs="?", type=Path, default=CHECKOUT / ".dedp" / "docs", help="where to write")
    parser.add_argument("--builder", choices=(*_BUILDERS, "none"), default=_BUILDERS[0], help="what builds the site")
    chosen = parser.parse_args(arguments)
    write(chosen.folder)
    if chosen.builder == "none":
        return 0
    command = [str(Path(sys.executable).parent / chosen.builder), "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=chosen.folder, check=False)
    print(f"{chosen.folder / 'html' / 'index.html'}" if not done.returncode else "no site")  # noqa: T201
    return done.returncode


def write(folder: Path) -> int:
    """Write the pages and the settings of the builder below a folder; return the number of pages."""
    shutil.rmtree(folder / "pages", ignore_errors=True)
    found = pages()
    for page in found:
        file = folder / "pages" / page.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page.text, encoding="utf-8")
    shutil.copytree(CHECKOUT / "docs" / PICTURES, folder / "pages" / PICTURES)
    settings = (CHECKOUT / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_dump({"nav": navigation(found)}, sort_keys=False, allow_unicode=True, width=200)
    (folder / "mkdocs.yml").write_text(f"{settings}\n{nav}", encoding="utf-8")
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
