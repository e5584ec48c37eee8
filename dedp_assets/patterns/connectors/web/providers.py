"""Providers: answers of external APIs, requested once and stored unchanged.

The same call may be answered differently the next time, so what was answered is a file from then on: who needs it
again, in whatever environment, takes the file.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from urllib.request import Request

from dedp_assets.patterns.connectors.web.parts import (
    Reply,
    ResponseLimits,
    exchanged,
    require_address,
    sentence,
    without_secrets,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.delta import folder_at, table_lock

__all__ = ["keep_answer"]

_LATER = (202, 408, 425, 429)
_WHOLE = (200, 203)


def keep_answer(
    url: str,
    path: Path,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = 60,
    total_seconds: float = 3_600,
    most_bytes: int = 1 << 30,
) -> bool:
    """Store the provider's answer to ``url`` in the file ``path``, byte by byte and only once.

    Args:
        url: what to ask for, by GET.
        path: the file of one period's answer; name the period in it, e.g. ``devices/2026-01-05/answer.json``.
        headers: sent along (credentials); they are in no error.
        timeout_seconds: how long the provider may be silent.
        total_seconds: how long the whole answer may take.
        most_bytes: how large the answer may be; it is held in memory.

    Returns:
        Whether the provider was asked.

    Raises:
        NotReady: if it does not answer, not completely, or says that it cannot now; nothing is kept.
        ContractError: if it refuses the call, sends it elsewhere, or answers with a part, too much, or packed.
        ConfigError: if ``url`` is not an HTTP address, or a header is none.
    """
    require_address(url, what="a provider")
    with table_lock(folder_at(path)):
        if path.exists():
            return False
        request = Request(url, headers=dict(headers or {}))  # noqa: S310 - the scheme was checked
        answer = _ask(request, ResponseLimits(timeout_seconds, total_seconds, most_bytes))
        incomplete = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
        try:
            with incomplete.open("xb") as file:
                file.write(answer)
                file.flush()
                os.fsync(file.fileno())
            incomplete.replace(path)
        finally:
            incomplete.unlink(missing_ok=True)
    return True


def _ask(request: Request, bounds: ResponseLimits) -> bytes:
    where = without_secrets(request.full_url)
    try:
        reply = exchanged(request, bounds)
    except IncompleteRead as error:
        raise NotReady(f"{where} broke off after {len(error.partial)} bytes: ask again") from None
    except (OSError, HTTPException) as error:
        raise NotReady(f"{where} does not answer ({sentence(str(error))}): ask again when it does") from None
    except (ValueError, TypeError, AttributeError):  # its text would show the header
        raise ConfigError(f"{where}: a header has another value than a line of text") from None
    _require_whole(where, reply)
    return reply.body


def _require_whole(where: str, reply: Reply) -> None:
    """Refuse a response with any status but success with a complete body."""
    status = f"{reply.status} {sentence(reply.reason)}"
    if reply.status >= 500 or reply.status in _LATER:
        raise NotReady(f"{where} cannot answer now ({status}): ask again later")
    if reply.elsewhere:
        raise ContractError(f"{where} sends the call to {reply.elsewhere}: ask there; nothing was kept")
    if reply.status >= 400:
        raise ContractError(f"{where} refuses the call ({status}): nothing was kept")
    if reply.status not in _WHOLE:
        raise ContractError(f"{where} gives no whole answer ({status}): nothing was kept")
