"""The landing zone as a Dagster resource: where source systems put files."""

import hashlib
import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PurePosixPath
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
    delivered_file,
    delivery_at,
    delivery_of,
    is_called_like_data,
    is_so,
)
from dedp_assets.patterns.connectors.landing.files import count_lines
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.names import printable
from dedp_assets.patterns.delta import FilePath, ObjectPath, by_first_name, is_in_bucket, path_at

__all__ = ["PARTITION", "Landing"]

PARTITION = "{partition}"
"""Place of the partition key in the last name of a dataset."""
_MARKERS = 400


class Landing(dg.ConfigurableResource[Any]):
    """The folders ``<root>/<dataset>/<partition>/`` with data files and a marker, or prefixes of a bucket.

    A bucket tells names, sizes, times and e-tags of all files of all partitions of a dataset by one listing, a request
    for each 1,000 objects; so a tick sends as many requests for 300 partitions as for three. Its times are whole
    seconds by the clock of its server, and nobody can set them back. An empty folder is not there.
    """

    root: str = Field(description="Location of the landing zone: a folder or s3://bucket/prefix.")

    def folder(self, dataset: str, partition: str = "") -> FilePath:
        """Return the folder of a delivery, or the prefix of a bucket.

        Args:
            dataset: dataset of the landing zone, or an absolute path. The folders of partitions lie in there, or have
                the key in the place ``{partition}`` of the last name, as ``orders/date={partition}``.
            partition: partition key; empty for a dataset that is one delivery.
        """
        folder = self._folder(dataset, partition)
        return folder if isinstance(folder, ObjectPath) else Path(folder)

    def _folder(self, dataset: str, partition: str) -> str | ObjectPath:
        name = dataset.replace(PARTITION, partition) if PARTITION in dataset else f"{dataset}/{partition}"
        # Thousands of folders per tick: a path of this machine is told by its first letters.
        if self.root.startswith(("s3", "S3")) and is_in_bucket(self.root):
            place = path_at(self.root) / name
            return place if isinstance(place, ObjectPath) else str(place)
        return os.path.join(self.root, name).rstrip("/")  # noqa: PTH118 - as above

    def _parent(self, dataset: str) -> tuple[FilePath, str, str]:
        """Return the folder with the folders of partitions, and the text before and after a key in the names."""
        if PARTITION not in dataset:
            return self.folder(dataset), "", ""
        path = self.folder(dataset, PARTITION)
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

    def deliveries(
        self, dataset: str, partitions: Sequence[str], *, ends: Ends = MARKED, now: datetime | None = None
    ) -> Iterator[Delivery]:
        """Describe several deliveries of a dataset, in order.

        In a bucket, several are told by one listing of the dataset, and each marker with a manifest is read once.

        Args:
            dataset: dataset of the landing zone, as of :meth:`folder`.
            partitions: partition keys.
            ends: sign of a complete delivery.
            now: current time, for deliveries that end by rest.
        """
        root, before, after = self._parent(dataset)
        if isinstance(root, Path) or len(partitions) == 1:
            yield from (self.delivery(dataset, partition, ends=ends, now=now) for partition in partitions)
            return
        listed = by_first_name(root, root.files()) if partitions else {}
        for partition in partitions:
            name = f"{before}{partition}{after}"
            found = delivery_of(root.below(name), listed.get(name, ()), ends, now=now)
            yield replace(found, partition=partition)

    def object(self, dataset: str, key: str) -> Delivery:
        """Describe a delivery of one file, by the path below the root; the file is also the marker.

        Raises:
            ContractError: if it does not lie in the dataset's folder.
            NotReady: if there is no such file.
        """
        folder, path = self.folder(dataset).resolve(), (path_at(self.root) / key).resolve()
        if str(folder) not in map(str, path.parents):
            raise ContractError(f"{key} does not lie in {dataset}/ of the landing zone: name an object that does")
        if not path.is_file():
            raise NotReady(f"{key} is not in the landing zone: put it there and replay the event")
        name = PurePosixPath(*path.parts[len(folder.parts) :]).as_posix()
        file = delivered_file(name, path.stat())
        return Delivery(dataset, (file,), marker=file)

    def paths(self, dataset: str, delivery: Delivery) -> list[FilePath]:
        """List the paths of the delivery's data files; refuse files that changed since the delivery was read.

        A bucket is asked by one listing. Its files are known by their e-tags, too.

        Raises:
            NotReady: if one of them changed, or went, since then.
        """
        folder = self.folder(dataset, "" if delivery.partition == Path(dataset).name else delivery.partition)
        found = _lying(folder, delivery)
        for file in delivery.files:
            path = found.get(file.name)
            if path is None or not _is_still(path, file):
                raise NotReady(f"{delivery.partition}: {file.name} changed while it was looked at: run again")
        return [found[file.name] for file in delivery.files]

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
        """Return the newest change time of the delivery's files (in a folder their ctime), in ns since 1970."""
        folder = self.folder(dataset, delivery.partition)
        if isinstance(folder, ObjectPath):  # nobody can set the time of an object back
            return max((file.modified_ns for file in delivery.files), default=0)
        with suppress(FileNotFoundError):
            return max(((folder / file.name).stat().st_ctime_ns for file in delivery.files), default=0)
        return 0

    def stray(self, dataset: str, ends: Ends = MARKED) -> list[str]:
        """List data files directly in the folder of the dataset, outside of any partition folder."""
        root, _, _ = self._parent(dataset)
        if isinstance(root, ObjectPath):
            listed = (file for file in root.files(deep=False) if is_called_like_data(file.name))
            found = [file.name for file in listed if file.is_file()]
        elif root.is_dir():
            with os.scandir(root) as entries:
                found = [e.name for e in entries if is_called_like_data(e.name) and is_so(e.is_file)]
        else:
            found = []
        return sorted(printable(name) for name in found if not ends.excludes(name))

    def touched(self, dataset: str, *, since_ns: int, marker: str = MARKER) -> Iterator[tuple[str, int]]:
        """List the partitions changed at or after ``since_ns``, each with the change time in ns since 1970.

        A file or a marker that comes, goes or is put in place anew changes its folder. A marker that is rewritten where
        it lies changes only itself: that is looked at in the newest 400 partitions. So a tick over years of days costs
        one ``stat`` for each and lists no folder.

        In a bucket one listing tells the newest object of each partition. A file that went leaves no trace there, and
        one that was uploaded in parts may have the time of the begin: a comparison with the delivery finds both.
        """
        root, before, after = self._parent(dataset)
        folders = _newest_objects(root) if isinstance(root, ObjectPath) else _changed_folders(root, marker)
        for name, changed_ns in folders.items():
            if changed_ns >= since_ns:
                named = name.startswith(before) and name.endswith(after)
                yield printable(name[len(before) : len(name) - len(after)] if named else name), changed_ns


def _lying(folder: FilePath, delivery: Delivery) -> Mapping[str, FilePath]:
    """Return the paths of delivered files by name; of a bucket only present files, by one request."""
    names = [file.name for file in delivery.files]
    if isinstance(folder, Path):
        return {name: folder / name for name in names}
    if len(names) == 1:  # of an event, in a dataset that may have many
        with suppress(FileNotFoundError):
            return {names[0]: folder.below(names[0]).fresh()}
    return {file.name: file for file in folder.files() if file.parent == folder} if names else {}


def _changed_folders(root: Path, marker: str) -> Mapping[str, int]:
    """Return the change times of folders by name; of the newest folders also by their markers."""
    if not root.is_dir():
        return {}
    with os.scandir(root) as entries:
        folders = {e.name: e.stat().st_mtime_ns for e in entries if e.name[0] not in "._" and is_so(e.is_dir)}
    for name in heapq.nlargest(_MARKERS, folders):
        folders[name] = max(folders[name], _modified(f"{root}/{name}/{marker}"))
    return folders


def _newest_objects(root: ObjectPath) -> Mapping[str, int]:
    """Return the time of the newest object in each prefix below a prefix, by name."""
    folders = dict[str, int]()
    for name, files in by_first_name(root, root.files()).items():
        own = root.below(name).path
        times = [file.entry().modified_ns for file in files if file.path != own]
        if times and name[0] not in "._":
            folders[name] = max(times)
    return folders


def _is_still(path: FilePath, file: DeliveredFile) -> bool:
    try:
        return delivered_file(file.name, path.stat()) == file
    except FileNotFoundError:
        return False


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - thousands per tick
    except FileNotFoundError:
        return 0
