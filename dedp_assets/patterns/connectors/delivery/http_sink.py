"""An HTTP service as a sink: bulk requests, accepted in whole or in part, an answer per record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlsplit

from dedp_assets.patterns.connectors.delivery.sinks import Answer, Outgoing, contract_of, refusal
from dedp_assets.patterns.connectors.web.http import Service, checked
from dedp_assets.patterns.connectors.web.parts import sentence
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.parsing.json_schemas import RecordSchema

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
        contracts: destination, or ``*`` for all others -> contract of its records: one that breaks it is refused and
            not sent.
    """

    service: Service
    limit: int = 500
    contracts: Mapping[str, RecordSchema] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """URL of the service without user, password, query and fragment."""
        return self.service.name

    @property
    def partial(self) -> bool:
        """Each record is taken by itself."""
        return True

    def send(self, destination: str, records: Sequence[Outgoing]) -> Sequence[Answer]:
        """Send the records that keep their contract in one request, and return the answer for each record.

        Raises:
            ContractError: if an answer lacks records, has others, or an outcome that nobody knows.
            NotReady: if the service does not answer.
        """
        contract = contract_of(self.contracts, destination)
        refused = {record.id: answer for record in records if (answer := refusal(record, contract))}
        asked = [record for record in records if record.id not in refused]
        answers = refused | (self._send(destination, asked) if asked else {})
        return [answers[record.id] for record in records]

    def _send(self, destination: str, records: Sequence[Outgoing]) -> dict[str, Answer]:
        """Send one request, and return the checked answers by the ids of the records."""
        base = urlsplit(self.service.url)
        inbox = replace(self.service, url=base._replace(path=f"{base.path}/{quote(destination, safe='')}").geturl())
        asked = [{"id": record.id, "key": record.key, "value": record.value} for record in records]
        answer = inbox.post({"records": asked})
        items = checked(answer, [record.id for record in records], answers="records", key="id", url=inbox.name)
        if strange := sorted({repr(item.get("outcome")) for item in items} - {*map(repr, _OUTCOMES)}):
            raise ContractError(f"{inbox.name} answers with outcomes that nobody knows: {sentence(', '.join(strange))}")
        return {
            str(item["id"]): Answer(item["outcome"], _text_of(item.get("position")), _text_of(item.get("reason")))
            for item in items
        }


def _text_of(value: object) -> str:
    """Convert a value of the response to text.

    ``None`` becomes an empty text.
    """
    return "" if value is None else str(value)
