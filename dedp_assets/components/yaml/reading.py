"""Handover of documents to Dagster, which would read each file once more, in plain Python.

Dagster offers no way to hand a document on, and its reading is two fifths of the load of 200 tables: this module stands
in for its function while a location loads. Files of other components, and any call that differs, take Dagster's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from dagster.components.core import decl
from dagster_shared.yaml_utils.source_position import (
    LineCol,
    SourcePosition,
    SourcePositionTree,
    ValueAndSourcePositionTree,
)

from dedp_assets.components.yaml.documents import Document, Mark, Path

__all__ = ["handed_on", "is_loading"]

_READ: ContextVar[Mapping[str, Sequence[Document]] | None] = ContextVar("read", default=None)
_NAME = "parse_yamls_with_source_position"
_DAGSTERS: Any = getattr(decl, _NAME, None)
_STATED = {"type", "attributes"}


@contextmanager
def handed_on(documents: Mapping[str, Sequence[Document]]) -> Iterator[None]:
    """Hand documents on to Dagster within the block, in the place of a second reading.

    Args:
        documents: file -> all documents of the file.
    """
    token = _READ.set({file: each for file, each in documents.items() if all(set(d.value) <= _STATED for d in each)})
    if _DAGSTERS is not None:
        setattr(decl, _NAME, _parsed)
    try:
        yield
    finally:
        _READ.reset(token)
        if _DAGSTERS is not None:
            setattr(decl, _NAME, _DAGSTERS)


def is_loading() -> bool:
    """Return whether documents are handed on, that is, whether a location loads."""
    return _READ.get() is not None


def _parsed(text: str, filename: str = "<string>", **options: Any) -> list[ValueAndSourcePositionTree]:  # noqa: ANN401
    read = (_READ.get() or {}).get(filename, ())
    if not read or options:
        found: list[ValueAndSourcePositionTree] = _DAGSTERS(text, filename, **options)
        return found
    return [ValueAndSourcePositionTree(each.value, _tree(each)) for each in read]


def _tree(document: Document) -> SourcePositionTree:
    """Return the places of a document and the document's keys."""
    # The faults of what lies deeper never reach Dagster.
    root = document.mark(())
    keys: list[Path] = [(key,) for key in document.value]
    children: dict[Any, Any] = {
        key: SourcePositionTree(position=_position(document, document.mark((key,), key=True)), children={})
        for (key,) in keys
    }
    return SourcePositionTree(position=_position(document, root), children=children)


def _position(document: Document, mark: Mark) -> SourcePosition:
    place = LineCol(line=mark.line, col=mark.column)
    return SourcePosition(filename=document.file, start=place, end=place)
