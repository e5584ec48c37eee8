"""Erasure in a versioned bucket: noncurrent versions with an id of a person are removed for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from dedp_assets.graph.erasure.cases import CasePlace
from dedp_assets.graph.erasure.files import holds_ids
from dedp_assets.graph.erasure.spellings import Spellings
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.running.permissions import inheriting
from dedp_assets.patterns.delta import NoncurrentVersion, NoncurrentVersions

__all__ = ["erase_versions"]

_AT_ONCE, _SMALL_BYTES = 8, 8 << 20
"""Number and greatest size of versions that are searched at the same time; larger ones one after the other."""


@dataclass(slots=True)
class _Counts:
    """Numbers of noncurrent versions of an erasure.

    Attributes:
        searched: number of all.
        removed: number of those with an id that are gone.
        bytes_removed: their size.
        held: number of those with an id in held folders.
        refused: what the server refuses, and why -> number.
        fault: why the search ended before the last version; empty at its end.
    """

    searched: int = 0
    removed: int = 0
    bytes_removed: int = 0
    held: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    fault: str = ""


def erase_versions(name: str, location: str, spellings: Spellings, *, held: Collection[str] = ()) -> CasePlace:
    """Remove noncurrent versions with an id, also behind delete markers; present objects stay.

    Args:
        name: name of the place.
        location: a prefix of a bucket, with versioning or without.
        spellings: the ids.
        held: folders below, whose versions stay.

    Returns:
        The place, with the numbers of versions and bytes; open while a version with an id cannot be removed.
    """
    found = _Counts()
    try:
        versions = NoncurrentVersions.at(location)
        for page in versions.pages():
            _erase_page(versions, page, spellings, tuple(f"{folder}/" for folder in held), found)
    except (PatternError, OSError) as error:
        # A name in it may hold an id.
        found.fault = spellings.without(str(error).encode()).decode()
    return _place(name, found)


def _erase_page(
    versions: NoncurrentVersions,
    page: Sequence[NoncurrentVersion],
    spellings: Spellings,
    held: tuple[str, ...],
    found: _Counts,
) -> None:
    """Search the versions of a page, remove versions with an id, and count both."""
    with_ids = list[NoncurrentVersion]()
    for version, answer in _answers(versions, page, spellings):
        found.searched += 1
        if isinstance(answer, PermissionError):
            found.refused[f"cannot be read: {answer.strerror}"] += 1
        elif answer and version.path.startswith(held):
            found.held += 1
        elif answer:
            with_ids.append(version)
    if not with_ids:
        return
    try:
        left = versions.remove(with_ids)
    except PermissionError as error:
        found.refused[f"with an id cannot be removed: {error.strerror}"] += len(with_ids)
        return
    for reason in left.values():
        found.refused[f"with an id cannot be removed, as under an object lock ({reason})"] += 1
    found.removed += len(with_ids) - len(left)
    found.bytes_removed += sum(each.size_bytes for each in with_ids if each not in left)


def _answers(
    versions: NoncurrentVersions, page: Sequence[NoncurrentVersion], spellings: Spellings
) -> Iterator[tuple[NoncurrentVersion, bool | PermissionError]]:
    """Yield each version with whether the content may hold an id, or with the error of a refused read."""

    def search(version: NoncurrentVersion) -> bool | PermissionError:
        try:
            return bool(version.size_bytes) and holds_ids(versions.read(version), spellings, path=version.path)
        except FileNotFoundError:  # it went meanwhile
            return False
        except PermissionError as error:
            return error

    small = [each for each in page if each.size_bytes <= _SMALL_BYTES]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from zip(small, pool.map(inheriting(search), small), strict=True)
    yield from ((each, search(each)) for each in page if each.size_bytes > _SMALL_BYTES)


def _place(name: str, found: _Counts) -> CasePlace:
    """Return the place of the versions in the case."""
    notes = [f"{quantity(number, 'versions')} {why}" for why, number in sorted(found.refused.items())]
    notes += [found.fault] if found.fault else []
    state = "open" if notes else "held" if found.held else "erased" if found.removed else "nothing"
    if found.held:
        notes.append(
            f"kept of tables on legal hold or with a damaged log: {quantity(found.held, 'versions')} with an id"
        )
    if found.removed:
        notes.append(
            f"gone for good: {found.removed:,} of {quantity(found.searched, 'noncurrent versions')}, with an id"
        )
    figures = {
        "versions_searched": found.searched,
        "versions_removed": found.removed,
        "bytes_removed": found.bytes_removed,
    }
    return CasePlace(name, "bucket", found.removed, state, "; ".join(notes), figures=figures)
