"""Published versions of the devices: every version is kept, readers know one name."""

from dedp_assets.case_study.defs.silver.devices import DEVICES_CURRENT
from dedp_assets.graph.declare import About, Gates, lake_query
from dedp_assets.patterns import Audit, Column, TableSpec, load_version

DEVICES = TableSpec(
    "gold/devices",
    {
        "type": Column("STRING", "kind of device", required=True, classification="public"),
        "version": Column("STRING", "version of the device", required=True, classification="public"),
        "full_name": Column("STRING", "name people know it by", classification="public"),
        "named_since": Column("TIMESTAMP", "since when it has its name", required=True, classification="public"),
    },
    comment="One row per device that is delivered now. Each load is a table of its own below `.versions`, which nobody "
    "can write again; this one shows the last, and its history says which version was shown when, and why.",
)
AUDITS = (
    Audit(
        name="each_device_is_listed_once",
        of="devices",
        sql="size(collect_set(struct(type, version)))",
        per="written",
        fail_below=1,
    ),
)


@lake_query(
    DEVICES,
    reads=[DEVICES_CURRENT],
    sql="SELECT type, version, full_name, valid_from AS named_since FROM {devices_current}",
    write=load_version,
    gates=Gates(AUDITS, if_empty="A version without devices is not shown."),
    about=About(owner="team:ingestion", used_by="partners, who must be able to show later what they were told"),
)
def devices() -> None:
    """Load the devices into a new version, and show the version."""
