"""Kinds of documents: one entry for each type of component, for the checks and the loading of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dedp_assets.components.chains import declaring
from dedp_assets.components.defining import definitions_of
from dedp_assets.components.landed import declaring_landings
from dedp_assets.components.tending import acting
from dedp_assets.components.tending.maintaining import maintenance_of
from dedp_assets.components.yaml.attributes import attributes
from dedp_assets.components.yaml.documents import Document
from dedp_assets.components.yaml.drafts import Draft
from dedp_assets.components.yaml.faults import Fault
from dedp_assets.components.yaml.model import Options
from dedp_assets.patterns.core.schema import TableSpec

__all__ = ["KINDS", "LANDING", "MAINTENANCE", "TABLE", "Kind"]

TABLE = "dedp_assets.components.TableComponent"
"""Type of the documents that declare tables."""
LANDING = "dedp_assets.components.LandingComponent"
"""Type of the documents that declare folders of files."""
MAINTENANCE = "dedp_assets.components.MaintenanceComponent"
"""Type of the documents that declare maintenance."""


@dataclass(frozen=True)
class Kind:
    """A type of component, for the checks and the loading of files.

    Attributes:
        attributes: returns the model of the attributes.
        draft: validates a document by itself.
        declare: makes the declaration of a draft, or the faults, from the declared tables by name.
        define: makes Dagster's definitions of a declaration.
    """

    attributes: Callable[[], type[Options]]
    draft: Callable[[Document], Draft]
    declare: Callable[[Draft, Mapping[str, TableSpec | None]], tuple[Any, list[Fault]]]
    define: Callable[[Any], dg.Definitions]


KINDS: Mapping[str, Kind] = {
    TABLE: Kind(attributes, declaring.draft, declaring.declare, lambda table: definitions_of([table])),
    MAINTENANCE: Kind(acting.attributes, acting.draft, acting.declare, maintenance_of),
    LANDING: Kind(declaring_landings.attributes, declaring_landings.draft, declaring_landings.declare, definitions_of),
}
"""Type of a document -> its kind."""
