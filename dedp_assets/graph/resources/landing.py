"""The landing zone as a Dagster resource: where source systems put files."""

import hashlib
import heapq
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from dedp_assets.patterns.connectors.encoding.formats import digest_whole, is_binary
from dedp_assets.patterns.connectors.landing.deliveries import (
    MARKED,
    MARKER,
    DeliveredFile,
    Delivery,
    Ends,
    delivery_at,
    is_called_like_data,
    is_so,
)
from dedp_assets.patterns.connectors.landing.files import count_lines
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.names import printable

__all__ = ["PARTITION", "Landing"]

PARTITION = "{partition}"
"""Place of the partition key in the last name of a dataset."""
_MARKERS = 400


class Landing(dg.ConfigurableResource[Any]):
    """The folders ``<root>/<dataset>/<partition>/`` with data files and a marker."""

    root: str = Field(description="Folder of the landing zone.")

    def folder(self, dataset: str, partition: str = "") -> Path:
        """Return the folder of a delivery.

        Args:
            dataset: dataset of the landing zone, or an absolute path. The folders of partitions lie in there, or have
                the key in the place ``{partition}`` of the last name, as ``orders/date={partition}``.
            partition: partition key; empty for a dataset that is one delivery.
        """
        return Path(self._folder(dataset, partition))

    def _folder(self, dataset: str, partition: str) -> str:
        if PARTITION in dataset:
            return os.path.join(self.root, dataset.replace(PARTITION, partition))  # noqa: PTH118 - thousands per tick
        return os.path.join(self.root, dataset, partition).rstrip("/")  # noqa: PTH118 - as above

    def _parent(self, dataset: str) -> tuple[Path, str, str]:
        """Return the folder with the folders of partitions, and the text before and after a key in the names."""
        if PARTITION not in dataset:
            return Path(self.root) / dataset, "", ""
        path = Path(self.root, dataset)
        before, _, after = path.name.partition(PARTITION)
        return path.parent, before, after

    def delivery(
        self, dataset: str, partition: str = "", *, ends: Ends = MARKED, now: datetime | None = None
    ) -> Delivery:
        """Describe the content of a delivery's folder.

        Args:
            dataset: dataset of the landing zone, as of :meth:`folder`.
            partition: partition key; empty for a dataset that is one delivery.
            ends: sign of a complete delivery.
            now: current time, for deliveries that end by rest.
        """
        found = delivery_at(self._folder(dataset, partition), ends, now=now)
        return replace(found, partition=partition) if PARTITION in dataset else found

    def object(self, dataset: str, key: str) -> Delivery:
        """Describe a delivery of one file, by the path below the root; the file is also the marker.

        Raises:
            ContractError: if it does not lie in the dataset's folder.
            NotReady: if there is no such file.
        """
        folder, path = self.folder(dataset).resolve(), Path(self.root, key).resolve()
        if folder not in path.parents:
            raise ContractError(f"{key} does not lie in {dataset}/ of the landing zone: name an object that does")
        if not path.is_file():
            raise NotReady(f"{key} is not in the landing zone: put it there and replay the event")
        stat = path.stat()
        file = DeliveredFile(path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns)
        return Delivery(dataset, (file,), marker=file)

    def paths(self, dataset: str, delivery: Delivery) -> list[Path]:
        """List the paths of the delivery's data files; refuse files that changed since the delivery was read.

        Raises:
            NotReady: if one of them changed, or went, since then.
        """
        folder = self.folder(dataset, "" if delivery.partition == Path(dataset).name else delivery.partition)
        for file in delivery.files:
            if not _is_still(folder / file.name, file):
                raise NotReady(f"{delivery.partition}: {file.name} changed while it was looked at: run again")
        return [folder / file.name for file in delivery.files]

    def content(self, dataset: str, delivery: Delivery) -> str:
        """Return the SHA-256 of the delivery's files, by name and bytes, as the identity of the content.

        Lines of a text file are counted by the way; a Parquet or Avro file has none.

        Raises:
            ContractError: if an engine would skip, misread or die of a file (``connectors.files``).
        """
        digest = hashlib.sha256()
        for path in self.paths(dataset, delivery):
            name = os.fsencode(path.name)
            digest.update(b"%d %b %d " % (len(name), name, path.stat().st_size))
            try:
                if is_binary(path.name):
                    digest_whole(path, seen=digest.update)
                else:
                    count_lines(path, seen=digest.update)
            except ContractError as error:
                raise ContractError(f"{delivery.partition}: {error}") from error
        return digest.hexdigest()

    def holds(self, dataset: str, delivery: Delivery, content: str) -> bool:
        """Return whether the delivery's files hold this content; ``False`` for unreadable files."""
        try:
            return self.content(dataset, delivery) == content
        except (ContractError, NotReady):
            return False

    def written(self, dataset: str, delivery: Delivery) -> int:
        """Return the newest change time (ctime) of the delivery's files, in ns since 1970."""
        folder = self.folder(dataset, delivery.partition)
        with suppress(FileNotFoundError):
            return max(((folder / file.name).stat().st_ctime_ns for file in delivery.files), default=0)
        return 0

    def stray(self, dataset: str, ends: Ends = MARKED) -> list[str]:
        """List data files directly in the folder of the dataset, outside of any partition folder."""
        root, _, _ = self._parent(dataset)
        if not root.is_dir():
            return []
        with os.scandir(root) as entries:
            found = [e.name for e in entries if is_called_like_data(e.name) and is_so(e.is_file)]
        return sorted(printable(name) for name in found if not ends.excludes(name))

    def touched(self, dataset: str, *, since_ns: int, marker: str = MARKER) -> Iterator[tuple[str, int]]:
        """List the partitions changed at or after ``since_ns``, each with the change time in ns since 1970.

        A file or a marker that comes, goes or is put in place anew changes its folder. A marker that is rewritten where
        it lies changes only itself: that is looked at in the newest 400 partitions. So a tick over years of days costs
        one ``stat`` for each and lists no folder.
        """
        root, before, after = self._parent(dataset)
        if not root.is_dir():
            return
        with os.scandir(root) as entries:
            folders = {e.name: e.stat().st_mtime_ns for e in entries if e.name[0] not in "._" and is_so(e.is_dir)}
        for name in heapq.nlargest(_MARKERS, folders):
            folders[name] = max(folders[name], _modified(f"{root}/{name}/{marker}"))
        for name, changed_ns in folders.items():
            if changed_ns >= since_ns:
                named = name.startswith(before) and name.endswith(after)
                yield printable(name[len(before) : len(name) - len(after)] if named else name), changed_ns


def _is_still(path: Path, file: DeliveredFile) -> bool:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (file.size_bytes, file.modified_ns)


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - thousands per tick
    except FileNotFoundError:
        return 0
