"""An HTTP service as a sink: bulk requests, accepted in whole or in part, an answer per record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from dedp_assets.patterns.connectors.http import Service, checked
from dedp_assets.patterns.connectors.parts import sentence
from dedp_assets.patterns.connectors.sinks import Answer, Outgoing
from dedp_assets.patterns.core.errors import ContractError

__all__ = ["HttpSink"]

_OUTCOMES = ("accepted", "present", "failed", "refused")


@dataclass(frozen=True, slots=True)
class HttpSink:
    """A service that takes records as JSON, at a path for each destination.

    A request is ``{"records": [{"id", "key", "value"}]}``.

    A request without an answer is sent again as often as the service's patience allows: it knows records by their id.

    Attributes:
        service: the service; a destination is a path below its URL.
        limit: the most records that one request may hold.
    """

    service: Service
    limit: int = 500

    @property
    def name(self) -> str:
        """URL of the service without user, password, query and fragment."""
        return self.service.name

    @property
    def partial(self) -> bool:
        """Each record is taken by itself."""
        return True

    def send(self, destination: str, records: Sequence[Outgoing]) -> Sequence[Answer]:
        """Send one request, and return the checked answer for each record.

        Raises:
            ContractError: if an answer lacks records, has others, or an outcome that nobody knows.
            NotReady: if the service does not answer.
        """
        base = urlsplit(self.service.url)
        inbox = replace(self.service, url=base._replace(path=f"{base.path}/{quote(destination, safe='')}").geturl())
        asked = [{"id": record.id, "key": record.key, "value": record.value} for record in records]
        answer = inbox.post({"records": asked})
        items = checked(answer, [record.id for record in records], answers="records", key="id", url=inbox.name)
        if strange := sorted({repr(item.get("outcome")) for item in items} - {*map(repr, _OUTCOMES)}):
            raise ContractError(f"{inbox.name} answers with outcomes that nobody knows: {sentence(', '.join(strange))}")
        by_id = {str(item["id"]): item for item in items}
        found = [by_id[record.id] for record in records]
        return [Answer(one["outcome"], _text_of(one.get("position")), _text_of(one.get("reason"))) for one in found]


def _text_of(value: object) -> str:
    """Convert a value of the response to text; ``None`` becomes an empty text."""
    return "" if value is None else str(value)
