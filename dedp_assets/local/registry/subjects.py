"""Semantics of a schema registry: reads and changes of each request, over any store of records.

Ids are of contents and hold for all subjects; versions are of one subject. A version softly deleted is out of the
history, keeps its number, and its schema stays readable by id, as long as records may be about that were written with
it. Levels and modes are of everything (``""``) or of one subject.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from dedp_assets.local.registry.schemas import LATEST, Content, Kind, Reference, RegistryError, Version, inlined
from dedp_assets.patterns.core.errors import ContractError

if TYPE_CHECKING:
    from dedp_assets.patterns.core.results import Finding

__all__ = ["EVERYTHING", "Judge", "Records", "Subjects", "qualified"]

EVERYTHING = ""
"""Scope of the level and the mode of subjects without their own."""

_LEVELS = ("NONE", *(f"{one}{all_}" for one in ("BACKWARD", "FORWARD", "FULL") for all_ in ("", "_TRANSITIVE")))
_MODES = ("READWRITE", "READONLY")
_DEFAULTS = {"level": "BACKWARD", "mode": "READWRITE"}
_RESERVED = ("__GLOBAL", "__EMPTY")
_LONGEST = 512
_CONTEXT = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)


class Judge(Protocol):
    """Judge of compatibility, such as ``judge_schema`` of the quality patterns."""

    def __call__(self, new: str, history: Sequence[str], *, mode: str, dialect: Kind) -> Finding:
        """Judge whether a schema may follow earlier schemas, oldest first.

        Raises:
            ContractError: for a text that is no schema.
        """


class Records(Protocol):
    """Records of a registry within one transaction."""

    def versions(self, subject: str) -> Sequence[Version]:
        """Return the versions of a subject, oldest first, with softly deleted versions."""

    def every_version(self) -> Sequence[Version]:
        """Return the versions of all subjects."""

    def uses(self, content_id: int) -> Sequence[Version]:
        """Return the versions with a content."""

    def content(self, content_id: int) -> Content | None:
        """Return the content of an id."""

    def identified(self, guid: str) -> int | None:
        """Return the id of the content with an identity."""

    def identify(self, content: Content) -> int:
        """Return the id of a content, new for an unknown content."""

    def add(self, version: Version) -> None:
        """Add a version under the subject's next number."""

    def hide(self, version: Version) -> None:
        """Mark a version as softly deleted."""

    def forget(self, version: Version) -> None:
        """Remove a version."""

    def setting(self, scope: str, name: str) -> str:
        """Return the value of a setting; empty if unset."""

    def set(self, scope: str, name: str, value: str) -> None:
        """Change a setting, or remove a setting by an empty value."""


def qualified(subject: str) -> str:
    """Return the name of a subject, without the name of the default context.

    Raises:
        RegistryError: 42208 for a text that is no name of a subject.
    """
    found = _CONTEXT.fullmatch(subject)
    name = found[2] if found and found[1] == "." else subject
    wrong = not name or name in _RESERVED or re.search(r"[\x00-\x1f\x7f-\x9f]", name)
    if wrong or (found and not found[2]) or len(name.encode()) > _LONGEST:
        raise RegistryError(42208, f"a subject must be a name of at most {_LONGEST} bytes, not {name[:60]!r}")
    return name


class Subjects:
    """The subjects of a registry.

    Args:
        records: the records.
        judge: judge of compatibility.
    """

    def __init__(self, records: Records, judge: Judge) -> None:
        self._records, self._judge = records, judge

    # --- schemas ------------------------------------------------------------------------------------------------------

    def register(self, subject: str, content: Content, *, normalize: bool = False) -> Version:
        """Return the version of a content, added as the last one unless already present.

        Raises:
            RegistryError: 40901 if the content is not compatible with the subject's history, 42201 if it is no schema,
                42205 in a mode without writes.
        """
        content = self._pinned(content)
        known = self._records.versions(subject)
        live = _live(known)
        if found := self._same(live, content, normalize=normalize):
            return found
        self._require_writes(subject)
        content = content.normal if normalize else content
        if reasons := self._objections(content, live, self.level(subject)):
            raise RegistryError(
                40901, f"Schema is incompatible with an earlier schema of '{subject}': {'; '.join(reasons)}"
            )
        number = max((version.number for version in known), default=0) + 1
        made = Version(subject, number, self._records.identify(content))
        self._records.add(made)
        return made

    def lookup(self, subject: str, content: Content, *, normalize: bool = False, deleted: bool = False) -> Version:
        """Return the version of a subject with a content.

        Raises:
            RegistryError: 40401 for an unknown subject, 40403 for a schema that the subject does not have.
        """
        content = self._pinned(content)
        if found := self._same(self._known(subject, deleted=deleted), content, normalize=normalize):
            return found
        self._objections(content, [], "NONE")
        raise RegistryError(40403, "Schema not found")

    def test(self, subject: str, content: Content, number: int | None, *, normalize: bool = False) -> list[str]:
        """Return the reasons that a content is not compatible; empty for a compatible content.

        Args:
            subject: the subject, whose level counts.
            content: the content.
            number: the only version to compare with; ``None`` for the history, as the level says.
            normalize: whether the content is brought into its normal form first.

        Raises:
            RegistryError: 40402 for an unknown number, 42201 for a content that is no schema.
        """
        content = self._pinned(content)
        content = content.normal if normalize else content
        live, level = _live(self._records.versions(subject)), self.level(subject)
        if number is None:
            return self._objections(content, live, level)
        if number != LATEST:
            live = [version for version in live if version.number == number]
            if not live:
                raise RegistryError(40402, f"Version {number} not found.")
        return self._objections(content, live[-1:], level.removesuffix("_TRANSITIVE"))

    def content(self, content_id: int) -> Content:
        """Return the content of an id; 40403 for an id that no version has.

        Raises:
            RegistryError: 40403.
        """
        found = self._records.content(content_id)
        if found is None or not self.uses(content_id, deleted=True):
            raise RegistryError(40403, f"Schema {content_id} not found")
        return found

    def id_of(self, guid: str) -> int:
        """Return the id of the content with an identity.

        Raises:
            RegistryError: 40403.
        """
        try:
            found = self._records.identified(str(uuid.UUID(guid)))
        except ValueError:
            found = None
        if found is None:
            raise RegistryError(40403, f"Schema {guid} not found")
        return found

    def uses(self, content_id: int, *, deleted: bool = False) -> list[Version]:
        """Return the versions with a content."""
        found = self._records.uses(content_id)
        return sorted(found if deleted else _live(found))

    def newest_id(self) -> int:
        """Return the greatest id of all versions; 0 without any."""
        return max((version.id for version in self._records.every_version()), default=0)

    # --- subjects and versions ----------------------------------------------------------------------------------------

    def names(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """Return the names of subjects, by choice with or only of softly deleted subjects."""
        every = self._records.every_version()
        live, known = {version.subject for version in _live(every)}, {version.subject for version in every}
        chosen = known - live if deleted_only else known if deleted else live
        return sorted(name for name in chosen if name.startswith(prefix))

    def contexts(self) -> list[str]:
        """Return the names of contexts with subjects, and of the default context."""
        found = filter(None, map(_CONTEXT.fullmatch, self.names()))
        return sorted({".", *(each[1] for each in found)})

    def numbers(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> list[int]:
        """Return the numbers of a subject's versions.

        Raises:
            RegistryError: 40401.
        """
        known = self._known(subject, deleted=deleted or deleted_only)
        return [version.number for version in known if version.deleted or not deleted_only]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """Return a version of a subject.

        Raises:
            RegistryError: 40401 for an unknown subject, 40402 for an unknown version.
        """
        known = self._known(subject, deleted=deleted)
        found = [version for version in known if number in (LATEST, version.number)]
        if not found:
            raise RegistryError(40402, f"Version {number} not found.")
        return found[-1]

    def referring(self, subject: str, number: int) -> list[int]:
        """Return the ids of contents in versions, also softly deleted, that refer to a version.

        Raises:
            RegistryError: 40401, 40402.
        """
        return sorted(self._referring([self.version(subject, number, deleted=True)]))

    def delete(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete the versions of a subject, softly with level and mode; return the versions' numbers.

        Raises:
            RegistryError: 40401 for an unknown subject, 40404 for one that is softly deleted already, 40405 for one
                that would first have to be, 42205 in a mode without writes, 42206 for one that others refer to.
        """
        known = self._records.versions(subject)
        if not known:
            raise RegistryError(40401, f"Subject '{subject}' not found.")
        live = _live(known)
        if not permanent and not live:
            raise RegistryError(
                40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
            )
        if permanent and live:
            raise RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
        doomed = known if permanent else live
        self._require_writes(subject)
        self._remove(doomed, permanent=permanent)
        if not permanent:
            for name in _DEFAULTS:
                self._records.set(subject, name, "")
        return [version.number for version in doomed]

    def delete_version(self, subject: str, number: int, *, permanent: bool = False) -> int:
        """Delete a version of a subject, and return the version's number.

        Raises:
            RegistryError: 40401, 40402 for what is unknown, 40406 for a version that is softly deleted already, 40407
                for one that would first have to be, 42205 in a mode without writes, 42206 for one that others refer to.
        """
        soft_latest = number == LATEST and not permanent
        found = self.version(subject, number, deleted=not soft_latest)
        if not permanent and found.deleted:
            raise RegistryError(
                40406, f"Subject '{subject}' Version {found.number} was soft deleted. Set permanent=true to delete it"
            )
        if permanent and not found.deleted:
            raise RegistryError(
                40407,
                f"Subject '{subject}' Version {found.number} was not deleted first before being permanently deleted",
            )
        self._require_writes(subject)
        self._remove([found], permanent=permanent)
        return found.number

    # --- levels and modes ---------------------------------------------------------------------------------------------

    def level(self, subject: str) -> str:
        """Return the level of a subject, by default the level of everything."""
        return self._counting(subject, "level")

    def own_level(self, scope: str, *, default: bool = False) -> str:
        """Return the level of a subject or of everything.

        Raises:
            RegistryError: 40408 for a subject without its own, unless that of everything is wanted by ``default``.
        """
        return self._own(scope, "level", 40408, "subject-level compatibility", default=default)

    def set_level(self, scope: str, level: object) -> str:
        """Change the level of a subject or of everything.

        Raises:
            RegistryError: 42203 for an unknown level, 42205 in a mode without writes.
        """
        chosen = _one_of(level, _LEVELS, 42203, "compatibility")
        self._require_writes(scope)
        self._records.set(scope, "level", chosen)
        return chosen

    def forget_level(self, scope: str) -> str:
        """Remove the own level of a subject or of everything, and return the level.

        Raises:
            RegistryError: 40408 for a subject without its own, 42205 in a mode without writes.
        """
        before = self.own_level(scope)
        self._require_writes(scope)
        self._records.set(scope, "level", "")
        return before

    def own_mode(self, scope: str, *, default: bool = False) -> str:
        """Return the mode of a subject or of everything.

        Raises:
            RegistryError: 40409 for a subject without its own, unless that of everything is wanted by ``default``.
        """
        return self._own(scope, "mode", 40409, "subject-level mode", default=default)

    def set_mode(self, scope: str, mode: object) -> str:
        """Change the mode of a subject or of everything.

        Raises:
            RegistryError: 42204 for an unknown mode.
        """
        chosen = _one_of(mode, _MODES, 42204, "mode")
        self._records.set(scope, "mode", chosen)
        return chosen

    def forget_mode(self, scope: str) -> str:
        """Remove the own mode of a subject or of everything, and return the mode.

        Raises:
            RegistryError: 40409 for a subject without its own.
        """
        before = self.own_mode(scope)
        self._records.set(scope, "mode", "")
        return before

    # ------------------------------------------------------------------------------------------------------------------

    def _known(self, subject: str, *, deleted: bool) -> Sequence[Version]:
        every = self._records.versions(subject)
        known = every if deleted else _live(every)
        if not known:
            raise RegistryError(40401, f"Subject '{subject}' not found.")
        return known

    def _same(self, versions: Sequence[Version], content: Content, *, normalize: bool) -> Version | None:
        """Return the newest of the versions with a content."""
        form: Callable[[Content], str] = (lambda one: one.normal.guid) if normalize else (lambda one: one.guid)
        wanted = form(content)
        return next((each for each in reversed(versions) if form(self._of(each)) == wanted), None)

    def _objections(self, content: Content, live: Sequence[Version], level: str) -> list[str]:
        """Return the reasons that a content may not follow versions under a level."""
        history = live if level.endswith("_TRANSITIVE") else live[-1:]
        earlier = [] if level == "NONE" else [(version, self._of(version)) for version in history]
        others = [version.number for version, each in earlier if each.kind != content.kind]
        with _refusing_invalid():
            text = inlined(content, self._referred)
            texts = [] if others else [inlined(each, self._referred) for _, each in earlier]
            finding = self._judge(text, texts, mode=level, dialect=content.kind)
        if others:
            return [f"version {number}: its schema is not of type {content.kind}" for number in others]
        return [] if finding.passed else _reasons(finding, [version.number for version in history])

    def _pinned(self, content: Content) -> Content:
        """Return a content whose references name versions by number."""
        if not content.references:
            return content
        found = [
            replace(each, version=self._refer(each).number) if each.version == LATEST else each
            for each in content.references
        ]
        return replace(content, references=tuple(found))

    def _refer(self, reference: Reference) -> Version:
        try:
            return self.version(reference.subject, reference.version, deleted=reference.version != LATEST)
        except RegistryError as error:
            raise RegistryError(42201, f"reference {reference.name}: {error}") from None

    def _referred(self, reference: Reference) -> Content:
        return self._of(self._refer(reference))

    def _of(self, version: Version) -> Content:
        if (found := self._records.content(version.id)) is None:
            raise RegistryError(50001, f"Version {version.number} of '{version.subject}' has no schema {version.id}")
        return found

    def _referring(self, versions: Iterable[Version]) -> set[int]:
        places = {(version.subject, version.number) for version in versions}
        ids = {version.id for version in self._records.every_version()}
        contents = {content_id: self._records.content(content_id) for content_id in ids}
        return {
            content_id
            for content_id, content in contents.items()
            if content and any((each.subject, each.version) in places for each in content.references)
        }

    def _remove(self, doomed: Collection[Version], *, permanent: bool) -> None:
        if others := self._referring(doomed):
            raise RegistryError(42206, f"One or more references exist to the schema: {sorted(others)}")
        for version in doomed:
            if permanent:
                self._records.forget(version)
            else:
                self._records.hide(version)

    def _require_writes(self, scope: str) -> None:
        if self._counting(scope, "mode") != "READWRITE":
            raise RegistryError(42205, f"Subject {scope or 'of everything'} is in read-only mode")

    def _counting(self, subject: str, name: str) -> str:
        own = self._records.setting(subject, name)
        return own or self._records.setting(EVERYTHING, name) or _DEFAULTS[name]

    def _own(self, scope: str, name: str, code: int, words: str, *, default: bool) -> str:
        if scope != EVERYTHING and not default and not self._records.setting(scope, name):
            raise RegistryError(code, f"Subject '{scope}' does not have {words} configured")
        return self._counting(scope, name)


@contextmanager
def _refusing_invalid() -> Iterator[None]:
    """Raise errors of a schema as refusals of the request."""
    try:
        yield
    except ContractError as error:
        raise RegistryError(42201, f"Invalid schema: {error}") from None
    except RecursionError:
        raise RegistryError(42201, "Invalid schema: it is nested too deep") from None


def _reasons(finding: Finding, numbers: Sequence[int]) -> list[str]:
    """Return the incompatibilities of a finding, with the numbers of the subject's versions."""
    reasons = [
        f"{each['direction']}, version {numbers[each['version'] - 1]}: "
        f"{each['path'] or 'the schema'}: {each['message']}"
        for each in finding.figures.get("incompatibilities", ())
    ]
    return reasons or [finding.note or "the schema is incompatible"]


def _live(versions: Iterable[Version]) -> list[Version]:
    return [version for version in versions if not version.deleted]


def _one_of(value: object, offered: Sequence[str], code: int, name: str) -> str:
    chosen = value.upper() if isinstance(value, str) else value
    if chosen not in offered:
        raise RegistryError(code, f"{name} must be one of {', '.join(offered)}, not {value}")
    return str(chosen)
