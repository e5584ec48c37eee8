"""Readiness Marker: a partition is read only after the producer marked the dataset as complete.

Problem: a consumer that starts while the producer still uploads ingests an incomplete dataset and does not notice.
Solution: the producer writes a marker as its very last step; the consumer polls for it and reads nothing before. Or, by
    convention, a partition is ready once the next one exists.
Consequences: nothing but the consumer's own discipline enforces it, so the platform's sensor is the only way in. Files
    that come after the marker are late data: noticed, never slipped in. A manifest states bytes and not rows, so that
    a look opens no data file.
Choose instead: External Trigger, if arrivals are unpredictable and the producer can call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal

from dedp_assets.patterns.connectors.landing.deliveries import MARKER, Delivery, delivery_at
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.delta import folder_at

__all__ = ["plan_ready", "delivering"]


@typed
def plan_ready(
    deliveries: Iterable[Delivery],
    *,
    consumed: Mapping[str, str],
    now: datetime,
    convention: Literal["marker", "next_partition"] = "marker",
    late_files: Literal["integrate", "report"] = "integrate",
    settle_seconds: float = 10,
) -> Plan:
    """Choose the ready partitions with unread content, oldest first.

    Args:
        deliveries: the partitions of the landing zone.
        consumed: partition -> :attr:`Delivery.identity` it had when it was last read.
        now: current time, with time zone.
        convention: ``marker`` waits for the marker; ``next_partition`` offers a partition once a later one exists, so
            the newest is never offered.
        late_files: what to do with files that come after the marker of a consumed partition: read the partition again
            (its consumers learn from the log which dates changed), or only report them.
        settle_seconds: how long such a file must have been left alone, in seconds: it has no marker of its own.

    Raises:
        ConfigError: for a convention or a rule that is not offered.

    Example:
        >>> from datetime import timezone
        >>> from dedp_assets.patterns.connectors.landing.deliveries import DeliveredFile
        >>> day = Delivery("2026-01-05", (DeliveredFile("a.jsonl", 10, 1),), marker=DeliveredFile("_SUCCESS", 0, 2))
        >>> plan_ready([day], consumed={}, now=datetime(2026, 1, 6, tzinfo=timezone.utc)).partitions
        ('2026-01-05',)
    """
    known = sorted(deliveries, key=lambda delivery: delivery.partition)
    causes: dict[str, str] = {}
    held: dict[str, str] = {}
    identities = {delivery.partition: delivery.identity for delivery in known}
    for delivery in known:
        key = delivery.partition
        if consumed.get(key) == identities[key]:
            continue
        open_end = convention == "next_partition" and delivery is known[-1]
        reason = "the next partition does not exist yet" if open_end else ""
        reason = reason or (delivery.refusal() if convention == "marker" else "")
        reason = reason or _unsettled(delivery, key in consumed, late_files, now, settle_seconds)
        if reason:
            held[key] = reason
        else:
            causes[key] = "late-file" if delivery.late else "redelivery" if key in consumed else "landing"
    reason = f"{len(causes)} ready, {len(held)} held back" if causes or held else "nothing new has landed"
    return Plan(tuple(causes), reason, causes=causes, held=held, cursor={key: identities[key] for key in causes})


@typed
@contextmanager
def delivering(folder: Path) -> Iterator[Path]:
    """Deliver a partition in a block, with the marker removed before and written after the files.

    The new marker holds a manifest.

    While the block runs, and if it fails, there is no marker, so no consumer starts on a half-written partition.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).unlink(missing_ok=True)
    yield folder
    files = {file.name: file.size_bytes for file in delivery_at(folder).files}
    folder_at(folder).put(MARKER, json.dumps({"files": files}).encode())


def _unsettled(delivery: Delivery, consumed: bool, late_files: str, now: datetime, settle_seconds: float) -> str:  # noqa: FBT001
    late = delivery.late
    if not late:
        return ""
    names = ", ".join(file.name for file in late[:3])
    if consumed and late_files == "report":
        return f"closed: {names} came after {MARKER} and will not be read"
    age = now.timestamp() - max(file.modified_ns for file in late) / 1e9
    return f"{names} came after {MARKER} and may still be growing" if age < settle_seconds else ""
