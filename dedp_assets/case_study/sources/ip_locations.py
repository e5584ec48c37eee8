"""Locations of network addresses: a service with bulk requests.

``POST /locations`` takes ``{"addresses": [...]}``, ``GET /locations?addresses=a,b`` the same, at most 100 of them. The
answer has an entry for each; an address that nobody can locate has no country. The same address is always at the same
place, unless the service is told that it ``moved``. Told to lie, it answers for ``half`` of the addresses, for
``wrong`` ones or for one of them ``twice``.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dedp_assets.case_study.sources.services import behaviour

__all__ = ["MOST", "location_of", "routes"]

MOST = 100
"""How many addresses a request may name."""

_REGIONS = {
    "DE": ("Bavaria", "Berlin", "Saxony"),
    "FR": ("Brittany", "Normandy"),
    "PL": ("Lesser Poland", "Masovia"),
    "US": ("California", "New York", "Texas"),
}
_PRIVATE = tuple(ipaddress.ip_network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_MOVED = "moved"


def location_of(address: str, *, edition: str = "") -> Mapping[str, str | None]:
    """Return ``address``, ``country`` and ``region`` of an address; NULL if private or invalid."""
    if not _can_be_located(address):
        return {"address": address, "country": None, "region": None}
    number = int(hashlib.sha256(f"{edition}{address}".encode()).hexdigest(), 16)
    country = sorted(_REGIONS)[number % len(_REGIONS)]
    regions = _REGIONS[country]
    return {"address": address, "country": country, "region": regions[number // len(_REGIONS) % len(regions)]}


def _can_be_located(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not any(found in block for block in _PRIVATE)


async def _locate(request: Request) -> Response:
    if request.method == "POST":
        asked = (await request.json())["addresses"]
    else:
        asked = [word for word in request.query_params.get("addresses", "").split(",") if word]
    if len(asked) > MOST:
        return JSONResponse({"error": f"at most {MOST} addresses, not {len(asked)}"}, status_code=413)
    name = behaviour(request)
    found = [location_of(address, edition=_MOVED if name == _MOVED else "") for address in _answered(asked, name)]
    return JSONResponse({"locations": found})


def _answered(asked: Sequence[str], name: str) -> Sequence[str]:
    """Choose the addresses that the answer is about."""
    if name == "half":
        return asked[: len(asked) // 2]
    if name == "wrong":
        return [f"{address}0" for address in asked]
    return [*asked, *asked[:1]] if name == "twice" else asked


routes = [Route("/locations", _locate, methods=["GET", "POST"])]
