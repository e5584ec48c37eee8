"""Visits with the facts known of user, device and address."""

from dedp_assets.case_study.defs.bronze.ip_locations import IP_LOCATIONS
from dedp_assets.case_study.defs.silver.devices import DEVICES_CURRENT
from dedp_assets.case_study.defs.silver.users import USERS
from dedp_assets.case_study.defs.silver.visits import EDITION, EVENT, VISITS
from dedp_assets.graph.declare import About, Gates, Pinned, Reads, lake_table, same
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.patterns import (
    Audit,
    Column,
    TableSpec,
    Target,
    WriteResult,
    audit_write_audit_publish,
    join_static,
    judge_reference,
    tally,
)
from dedp_assets.patterns.value.static_joiner import VALID, AsOf

_VISIT = ("visit_id", "event_time", "user_id", "page", "ip", "device_type", "device_version", "event_date")
VISITS_ENRICHED = TableSpec(
    "silver/visits_enriched",
    {
        **{name: EVENT[name] for name in _VISIT[:-1]},
        "active": Column("BOOLEAN", "whether the user might log in then"),
        "user_known": Column("BOOLEAN", "whether the user was known at the time of the visit", required=True),
        "device_name": Column("STRING", "name of the device, as it is delivered now"),
        "device_known": Column("BOOLEAN", "whether the device is delivered", required=True),
        "country": Column("STRING", "country of the address"),
        "region": Column("STRING", "region of the address"),
        "address_known": Column("BOOLEAN", "whether the service was asked for the address", required=True),
        "event_date": VISITS.columns["event_date"],
    },
    partition_by=("event_date",),
    event_time="event_time",
    comment="One row per visit, also of unknown users, devices and addresses.",
)
AUDITS = (
    Audit(name="users_are_known", of="unknown users", where="NOT user_known", per="written", warn_above=0.5),
    Audit(name="devices_are_known", of="unknown devices", where="NOT device_known", per="written", warn_above=0.2),
    Audit(
        name="addresses_are_known",
        of="unknown addresses",
        where="NOT address_known AND ip IS NOT NULL",
        per="written",
        warn_above=0,
        fail_above=0.2,
        approvable=True,
    ),
)
DEVICES_BYTES = 32 << 20
"""Size of the devices, in bytes, up to which they are sent to the visits instead of sorting both by device."""
CHECKS = {
    "users_have_one_version_at_a_time": "No versions of a user overlap or leave a gap; otherwise nothing is joined.",
    "devices_are_there_once": "No device is there twice; otherwise nothing is joined.",
    "addresses_are_there_once": "No address of the day is there twice; otherwise nothing is joined.",
}
DERIVED = {
    **{name: EDITION.origins(name) for name in ("device_type", "device_version")},
    "user_known": ["user_id", "valid_from", "valid_to"],
    "device_name": ["full_name"],
    "device_known": ["type", "version"],
    "address_known": ["ip"],
}


@lake_table(
    VISITS_ENRICHED,
    reads=Reads(
        {VISITS: same("event_date"), IP_LOCATIONS: same("event_date")},
        references=[USERS, DEVICES_CURRENT],
        revised_by=[USERS],
    ),
    runs=DAILY,
    gates=Gates(AUDITS, checks=CHECKS),
    about=About(used_by="analysts, who relate visits to users, devices and places", fresh_hours=28, derived=DERIVED),
    patterns=[join_static, audit_write_audit_publish],
    code_version=EDITION.reader("2"),
)
def visits_enriched(visits: Pinned, places: Pinned, users: Pinned, devices: Pinned, into: Target) -> WriteResult:
    """Join one day's visits to users as of each visit, to devices, and to the day's locations."""
    rows, seen = tally(
        visits.rows().selectExpr(*(f"{EDITION.sql(name)} AS {name}" for name in _VISIT)), identity=["visit_id"]
    )
    versions, delivered, located = users.rows(), devices.rows(broadcast_bytes=DEVICES_BYTES), places.rows()
    one_user, one_device, one_address = CHECKS
    judged = (
        judge_reference(versions, keys=["user_id"], valid=VALID, gaps=False, name=one_user),
        judge_reference(delivered, keys=["type", "version"], name=one_device),
        judge_reference(located, keys=["ip"], name=one_address),
    )
    rows = join_static(
        rows,
        versions,
        keys={"user_id": "user_id"},
        columns={"active": "active"},
        judged=judged[0],
        as_of=AsOf(VISITS.event_time),
        matched="user_known",
    )
    rows = join_static(
        rows,
        delivered,
        keys={"device_type": "type", "device_version": "version"},
        columns={"full_name": "device_name"},
        judged=judged[1],
        matched="device_known",
    )
    rows = join_static(
        rows,
        located,
        keys={"ip": "ip"},
        columns={"country": "country", "region": "region"},
        judged=judged[2],
        matched="address_known",
    )
    return audit_write_audit_publish(
        rows.select(*VISITS_ENRICHED.columns),
        into.reading(seen, findings=judged),
        allow_empty=True,
    )
