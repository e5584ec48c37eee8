"""Sinks: external systems that take records by request and answer for each record."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, Protocol, TypeAlias, TypeVar, get_args

from dedp_assets.patterns.connectors.web.parts import calling, is_text, sentence
from dedp_assets.patterns.core.parsing.json_schemas import RecordSchema, record_faults
from dedp_assets.patterns.core.running.backoff import Backoff

__all__ = ["OTHERS", "Answer", "ErasableCopy", "Outgoing", "Sink", "contract_of", "in_requests", "refusal", "send"]

T = TypeVar("T")

OTHERS = "*"
"""Key of the contract of all other destinations."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send.

    Attributes:
        id: the same one each time the record is sent, so that a sink can know it again.
        key: the entity whose records keep their order.
        value: JSON; ``None`` says that the entity is gone, which in a compacted topic erases its records (a tombstone).
    """

    id: str
    key: str
    value: str | None


Outcome: TypeAlias = Literal["accepted", "present", "failed", "refused"]
_OUTCOMES = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class Answer:
    """A sink's answer for one record.

    Attributes:
        outcome: ``accepted``; ``present``, as it was accepted before; ``failed``, and may be sent again; ``refused``
            for ever.
        position: where the sink put it.
        reason: why it was not taken.
    """

    outcome: Outcome
    position: str = ""
    reason: str = ""

    @property
    def acknowledged(self) -> bool:
        """Return whether the sink has the record."""
        return self.outcome in ("accepted", "present")


class Sink(Protocol):
    """A system that takes records."""

    @property
    def name(self) -> str:
        """Name of the sink in errors."""

    @property
    def partial(self) -> bool:
        """Return whether a record may be accepted after a failed record of the same request."""

    @property
    def limit(self) -> int:
        """The maximum number of records in a request."""

    def send(self, destination: str, records: Sequence[Outgoing]) -> Sequence[Answer]:
        """Send one request, and return an answer for each record, in order.

        Raises:
            TimeoutError: if nobody knows what became of the request; so does ``ConnectionError``.
            NotReady: if the sink takes nothing now.
        """


class ErasableCopy(Protocol):
    """A copy of persons' rows outside of Delta, from which persons can be erased.

    Both steps may be repeated: an id that is not there changes nothing.
    """

    @property
    def name(self) -> str:
        """Name of the copy in errors."""

    def erase(self, ids: Collection[str]) -> None:
        """Delete the newest state of persons for readers.

        Raises:
            NotReady: if the system does not answer.
        """

    def purge(self, ids: Collection[str]) -> None:
        """Remove the rows that :meth:`erase` deleted from files.

        Raises:
            NotReady: if the system needs more time.
        """


def send(sink: Sink, destination: str, records: Sequence[Outgoing], *, backoff: Backoff) -> tuple[list[Answer], int]:
    """Send records in one request, and resend failed records after a doubling pause.

    Once a record was refused, a sink without partial commits is sent nothing that stands after it.

    Returns:
        The last answer for each record, and the number of requests.

    Raises:
        ContractError: if the sink fails with an exception of its own: what it took of the request is not known, and a
            later delivery sends it again.
        NotReady: if the system or the network fails, or the sink says so.
    """
    answers, waiting, requests = dict[str, Answer](), list(records), 0
    while True:
        requests += 1
        with calling(f"{sink.name}, sent {len(waiting)} records for {destination},"):
            try:
                got = _understood(sink, sink.send(destination, waiting), waiting)
            except (TimeoutError, ConnectionError) as error:
                got = _unknown(waiting, sentence(str(error)) or type(error).__name__)
        answers |= {record.id: answer for record, answer in zip(waiting, got, strict=True)}
        waiting = [record for record in waiting if answers[record.id].outcome == "failed"]
        stuck = not sink.partial and any(answer.outcome == "refused" for answer in got)
        if not waiting or stuck or requests == backoff.attempts:
            return [answers[record.id] for record in records], requests
        time.sleep(backoff.pause(requests))


def contract_of(contracts: Mapping[str, RecordSchema], destination: str) -> RecordSchema | None:
    """Return the contract of a destination's records, or that of :data:`OTHERS`.

    ``None`` without either.
    """
    return contracts.get(destination, contracts.get(OTHERS))


def refusal(record: Outgoing, contract: RecordSchema | None) -> Answer | None:
    """Return the refusal of a record that breaks the contract of the destination.

    ``None`` otherwise.

    The answer has every reason. A producer asks before a record is sent: what the table would refuse leaves nothing.
    """
    faults = record_faults(record.value, contract) if contract and record.value is not None else ()
    return Answer("refused", reason=f"{contract.table}: {'; '.join(faults)}") if contract and faults else None


def _understood(sink: Sink, answers: object, records: Sequence[Outgoing]) -> Sequence[Answer]:
    """Return the sink's answers, one for each record; all ``failed`` for a wrong number or type."""
    # One more than there may be: an iterator need not end.
    given = list(islice(answers, len(records) + 1)) if isinstance(answers, Iterable) else []
    if len(given) != len(records) or not all(map(_is_answer, given)):
        return _unknown(records, f"{sink.name} must answer each of {len(records)} records, not {answers!r:.80}")
    return given


def _is_answer(each: object) -> bool:
    return (
        isinstance(each, Answer)
        and each.outcome in _OUTCOMES
        and is_text(each.position)
        and isinstance(each.reason, str)
    )


def _unknown(records: Sequence[Outgoing], why: str) -> Sequence[Answer]:
    return [Answer("failed", reason=why)] * len(records)


def in_requests(records: Iterable[T], limit: int) -> Iterator[list[T]]:
    """Cut records into requests of at most ``limit``."""
    left = iter(records)
    while request := list(islice(left, limit)):
        yield request
