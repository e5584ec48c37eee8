"""The built wheel in a folder of its own, as tests run code and commands from it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings

UV = Path(sys.executable).parent / "uv"
HIDING = """
import sys
HIDDEN = {hidden}
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in HIDDEN else self.finder.find_spec(name, *more)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


@dataclass(frozen=True)
class Wheel:
    """A wheel, unpacked, before everything else on the path; packages called as this project's wiring lie beside it."""

    folder: Path

    @property
    def site(self) -> Path:
        """Folder of the wheel's packages."""
        return self.folder / "site"

    def environment(self, **variables: str) -> dict[str, str]:
        """Variables of a process that runs from the wheel, with the checkout's jars and no home of anybody."""
        path = f"{self.folder / 'decoys'}:{self.site}"
        fixed = {"PYTHONPATH": path, "DEDP_CACHE": str(settings().cache), **variables}
        return child_environment(fixed, without=("DEDP_HOME", "DAGSTER_HOME", "SPARK_REMOTE"))

    def run(
        self, code: str, *arguments: str, without: Sequence[str] = (), cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run code, without the packages that are hidden from it."""
        text = (HIDING.format(hidden=without) if without else "") + code
        return subprocess.run(
            [sys.executable, "-c", text, *arguments],
            cwd=cwd or self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )


def built_wheel(folder: Path) -> Wheel:
    """Build the wheel of the checkout, and unpack it below a folder."""
    for offline in (["--offline"], []):
        command = [UV, "build", *offline, "--quiet", "--wheel", "--out-dir", folder, CHECKOUT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    for name in ("resources", "sensors"):
        (folder / "decoys" / name).mkdir(parents=True)
        (folder / "decoys" / name / "__init__.py").write_text("raise SystemError('this is somebody else\\'s')\n")
    return Wheel(folder)
