"""Providers: an answer of an external API, asked for once and kept as it came.

The same call may be answered differently the next time, so what was answered is a file from then on: who needs it
again, in whatever environment, takes the file.
"""

from __future__ import annotations

import http.client
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.delta.locations import folder_at
from dedp_assets.patterns.delta.locks import table_lock

__all__ = ["keep_answer"]

_LATER = (408, 425, 429)


def keep_answer(url: str, path: Path, *, headers: Mapping[str, str] | None = None, timeout_seconds: float = 60) -> bool:
    """Keep the provider's answer to ``url`` in the file ``path``, byte by byte; it is asked for only once.

    Args:
        url: what to ask for, by GET.
        path: the file of one period's answer; name the period in it, e.g. ``devices/2026-01-05/answer.json``.
        headers: sent along (credentials); they are in no error.
        timeout_seconds: how long the provider may be silent.

    Returns:
        Whether the provider was asked.

    Raises:
        NotReady: if it does not answer, not completely, or says that it cannot now; nothing is kept.
        ContractError: if it refuses the call.
        ConfigError: if ``url`` is not an HTTP address.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{url} is no address of a provider: name one that begins with http:// or https://")
    with table_lock(folder_at(path)):
        if path.exists():
            return False
        answer = _ask(Request(url, headers=dict(headers or {})), timeout_seconds)  # noqa: S310 - the scheme was checked
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


def _ask(request: Request, timeout_seconds: float) -> bytes:
    where = request.full_url.partition("?")[0]
    try:
        with urlopen(request, timeout=timeout_seconds) as answer:  # noqa: S310 - the scheme was checked
            content: bytes = answer.read()
    except HTTPError as error:
        error.close()
        if error.code >= 500 or error.code in _LATER:
            raise NotReady(f"{where} cannot answer now ({error.code} {error.reason}): ask again later") from None
        raise ContractError(f"{where} refuses the call ({error.code} {error.reason}): nothing was kept") from None
    except http.client.IncompleteRead as error:
        raise NotReady(f"{where} broke off after {len(error.partial)} bytes: ask again") from None
    except (URLError, OSError, http.client.HTTPException) as error:
        raise NotReady(f"{where} does not answer ({error}): ask again when it does") from None
    return content
