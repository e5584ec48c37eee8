"""The landing zone as a Dagster resource: where source systems put files."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from dedp_assets.patterns.core.deliveries import MARKER, Delivery, look_at

__all__ = ["Landing"]

_CHUNK = 1 << 20


class Landing(dg.ConfigurableResource[Any]):
    """Folders ``<root>/<dataset>/<partition>/`` with data files and a marker."""

    root: str = Field(description="Folder of the landing zone.")

    def folder(self, dataset: str, partition: str = "") -> Path:
        """The folder of one delivery."""
        return Path(self.root) / dataset / partition

    def delivery(self, dataset: str, partition: str = "") -> Delivery:
        """What lies in one delivery's folder."""
        return look_at(self.folder(dataset, partition))

    def paths(self, dataset: str, delivery: Delivery) -> list[Path]:
        """The delivery's data files."""
        folder = self.folder(dataset, "" if delivery.partition == dataset else delivery.partition)
        return [folder / file.name for file in delivery.files]

    def content(self, dataset: str, delivery: Delivery) -> str:
        """SHA-256 over the delivery's files, by name and bytes: equal content means nothing new to load."""
        digest = hashlib.sha256()
        for path in self.paths(dataset, delivery):
            digest.update(f"{len(path.name.encode())} {path.name} {path.stat().st_size} ".encode())
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        return digest.hexdigest()

    def touched(self, dataset: str, *, since_ns: int) -> Iterator[tuple[str, int]]:
        """Partitions whose folder or marker changed at or after ``since_ns``, each with that time in ns since 1970.

        One ``stat`` of the folder and one of its marker per partition; no folder is listed.
        """
        root = Path(self.root) / dataset
        if not root.is_dir():
            return
        with os.scandir(root) as entries:
            for entry in entries:
                if not entry.name.startswith((".", "_")) and entry.is_dir():
                    changed = max(entry.stat().st_mtime_ns, _modified(f"{entry.path}/{MARKER}"))
                    if changed >= since_ns:
                        yield entry.name, changed


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - thousands per tick
    except FileNotFoundError:
        return 0
