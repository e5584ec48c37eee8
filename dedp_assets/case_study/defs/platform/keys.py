"""Keys of encrypted columns: deleted ones are shredded after their grace, and a new wrapping key wraps all."""

import dagster as dg

from dedp_assets.graph.declare import Every, Job, Source, lake_job
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.systems.secrets import Secrets

JOB = "tend_keys"
RING = Source(
    "keys/columns",
    "Keys of encrypted columns, wrapped by a key of the store of secrets: one for each table, purpose or person.",
    ("file",),
    "team:platform",
)


@lake_job(
    Job(JOB, description="Keys of encrypted columns: shredded after the grace, wrapped by the newest wrapping key."),
    Every("5 2 * * *", name="tend_keys_every_night", description="At 02:05 UTC, without a look at any table."),
    pool="keys",
    reads=[RING],
)
def shred_and_rewrap(context: dg.OpExecutionContext, secrets: Secrets, clock: Clock) -> None:
    """Shred the deleted keys whose grace is over, and wrap by the newest version of the wrapping key."""
    keys = secrets.key_ring(JOB)
    shredded, wrapped = keys.shred(now=clock.now()), keys.rewrap()
    context.log.info(f"{shredded} keys were shredded, {wrapped} were wrapped again")
