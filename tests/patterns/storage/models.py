"""A data model of visits for the tests of Normalizer and Denormalizer: entities, rows, references by definition."""

from __future__ import annotations

import hashlib
import io
from contextlib import redirect_stdout

from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.storage.normalizer import Entity, normalize
from tests.helpers import a_run

FLAT = "page STRING, kind STRING, `the-model` STRING, name STRING, ip INT, city STRING, country STRING"
ENTITIES = {
    "device": Entity(keys=["kind", "the-model"], columns=["name"]),
    "place": Entity(keys=["ip"], columns=["city", "country"]),
    "city": Entity(keys=["city"], columns=["country"]),
}
"""Three entities, of which one is nested in another one: a snowflake."""
OWN = {
    "device": {"kind": Column("STRING"), "the-model": Column("STRING"), "name": Column("STRING")},
    "place": {"ip": Column("INT"), "city_id": Column("STRING")},
    "city": {"city": Column("STRING"), "country": Column("STRING")},
}


def reference(*keys):
    """The reference to an entity by its definition, in another language's words."""
    texts = (None if key is None else ("i" if isinstance(key, int) else "s", str(key)) for key in keys)
    written = ("-" if text is None else f"{text[0]}{len(text[1].encode())}:{text[1]}" for text in texts)
    return hashlib.sha256("".join(written).encode()).hexdigest()


def visits_of(count, *, devices=5, places=7):
    """Visits whose devices and places repeat: each attribute follows from its key."""
    found = []
    for n in range(count):
        device, place = n % devices, n % places
        city = place % 3
        found.append((f"/{n}", "mobile", f"m{device}", f"Model {device}", place, f"City {city}", f"Country {city % 2}"))
    return found


def entity_table(make_table, flat, name):
    """The table of an entity, written by its key."""
    declared = {f"{name}_id": Column("STRING", required=True), **OWN[name]}
    table = make_table(TableSpec(name, declared, key=(f"{name}_id",)))
    upsert_keyed(normalize(flat, entities=ENTITIES, of=name), table.target(a_run()))
    return table


def plan(frame):
    """The physical plan, as Spark shows it."""
    with redirect_stdout(io.StringIO()) as shown:
        frame.explain("extended")
    return shown.getvalue().partition("== Physical Plan ==")[2]
