"""A sink in memory that fails as it is told to, and remembers every request."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random
from threading import Lock

from dedp_assets.patterns.connectors.delivery.sinks import Answer, Outgoing

Fault = Callable[[Outgoing, int], Answer | Exception | None]
"""What happens to a record when it is sent for the n-th time, from 1; ``None``: it is accepted."""


class Inbox:
    """A sink that takes what it is sent.

    Attributes:
        partial: whether it takes the other records of a request of which one failed; if not, none that follows.
        limit: the most records of a request.
        fault: what goes wrong with a record; an error is raised after the request was taken: its answer is lost.
        knows_ids: whether a record that it has is not taken again.
        requests: every request: where to, and the ids.
        taken: destination -> the records it took, in order.
    """

    name = "the inbox"

    def __init__(
        self, *, partial: bool = True, limit: int = 100, fault: Fault = lambda *_: None, knows_ids: bool = True
    ) -> None:
        self.partial, self.limit, self.fault, self.knows_ids = partial, limit, fault, knows_ids
        self.requests: list[tuple[str, list[str]]] = []
        self.taken: dict[str, list[Outgoing]] = defaultdict(list)
        self.sent: Counter[str] = Counter()
        self._lock = Lock()

    def send(self, destination: str, records: Sequence[Outgoing]) -> Sequence[Answer]:
        with self._lock:
            assert 0 < len(records) <= self.limit
            self.requests.append((destination, [record.id for record in records]))
            answers, lost = list[Answer](), list[Exception]()
            for record in records:
                self.sent[record.id] += 1
                fault = self.fault(record, self.sent[record.id])
                if isinstance(fault, Exception):
                    lost.append(fault)
                stuck = not self.partial and any(not answer.acknowledged for answer in answers)
                failed = (
                    fault if isinstance(fault, Answer) else Answer("failed", reason="one before") if stuck else None
                )
                answers.append(failed or self._take(destination, record))
            if lost:
                raise lost[0]
            return answers

    def _take(self, destination: str, record: Outgoing) -> Answer:
        held = self.taken[destination]
        known = [one.id for one in held] if self.knows_ids else []
        if record.id in known:
            return Answer("present", str(known.index(record.id)))
        held.append(record)
        return Answer("accepted", str(len(held) - 1))

    def ids(self, destination: str) -> list[str]:
        """The ids that a destination took, in order."""
        return [record.id for record in self.taken[destination]]

    def by_entity(self, destination: str) -> dict[str, list[str]]:
        """The same by entity."""
        found = defaultdict(list)
        for record in self.taken[destination]:
            found[record.key].append(record.id)
        return dict(found)


def failing(share: float, seed: int = 1, times: int = 3) -> Fault:
    """Let a share of the records fail, each at most so many times."""
    random = Random(seed)  # noqa: S311 - test data
    return lambda _, number: (
        Answer("failed", reason="throttled") if number <= times and random.random() < share else None
    )


def refusing(*ids: str) -> Fault:
    """Refuse some records for ever."""
    return lambda record, _: Answer("refused", reason="too large") if record.id in ids else None


def losing(*ids: str) -> Fault:
    """Take some records, and lose the answer the first time."""
    return lambda record, number: TimeoutError("no answer") if record.id in ids and number == 1 else None
