"""Long-polling ticks: a sensor without findings polls again until the end of the tick.

Dagster's daemon starts a tick every five seconds at most, and what arrives between two ticks waits for the second.
A tick that goes on looking sees it at once, and there are fewer ticks to record.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dagster as dg

from dedp_assets.graph.resources.environments import settings

__all__ = ["keep_polling"]

_PAUSE_SECONDS = 0.2
_SHARE = 10
"""How many times longer than a look took the sensor rests after it: looking costs a tenth of a core at most."""

_Poll = Callable[[], dg.SensorResult | dg.SkipReason]


def keep_polling(poll: _Poll) -> dg.SensorResult | dg.SkipReason:
    """Poll until a run is to be requested, or the tick has lasted ``DEDP_LOOK_SECONDS``.

    Args:
        poll: polls once. It has to be cheap where nothing changed since the poll before.
    """
    end = time.monotonic() + settings().look_seconds
    while True:
        began = time.monotonic()
        result = poll()
        now = time.monotonic()
        pause = max(_PAUSE_SECONDS, _SHARE * (now - began))
        if isinstance(result, dg.SensorResult) or now + pause >= end:
            return result
        time.sleep(pause)
