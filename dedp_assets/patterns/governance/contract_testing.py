"""Contract Testing: producer and consumer prove in separate builds that both agree.

Problem: two teams test each on its own, against examples that they made up. The consumer filters by a status that the
    producer never writes, and both builds are green.
Solution: the consumer writes down as a record what it relies on: columns, types, values, service level. Its build holds
    that against the producer's contract, and the producer's build holds sample records against the same contract.
Consequences: no Spark and no data of the other side. A sample proves what it holds and nothing more, so that rules in
    SQL stay for the gates of the table. An expectation nobody writes down is not tested.
Choose instead: Data Contract, to judge a change and ask those it hits; Constraints Enforcer, to hold a write to rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dedp_assets.patterns.core.columns import spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.types.widening import is_widening
from dedp_assets.patterns.governance._changes import compare_types
from dedp_assets.patterns.governance._contracts import Contract, Sla, respelled
from dedp_assets.patterns.governance._samples import Samples

__all__ = ["verify_consumer", "verify_producer", "Expectation"]

_NO_SLA = Sla()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The needs of one consumer of a table; an option that is not stated is no need.

    Attributes:
        consumer: who reads.
        columns: column that is read -> SQL type that it is read as; a narrower type of the producer fits.
        required: columns in which the consumer cannot do with a missing value.
        expected_values: column -> values that the consumer looks for, in a filter or a join: the producer must be able
            to write them.
        known_values: column -> all values that the consumer can handle: the producer must write no other.
        partition_by: partition columns that the consumer reads by; ``None`` for a reader of whole tables.
        sla: service level that the consumer needs.
        daily_rows_min: fewest rows of a day that the consumer can work with.
        daily_rows_max: most rows of a day that the consumer can take.
    """

    consumer: str
    columns: Mapping[str, str]
    required: Sequence[str] = ()
    expected_values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    known_values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    partition_by: Sequence[str] | None = None
    sla: Sla = _NO_SLA
    daily_rows_min: int | None = None
    daily_rows_max: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        for option in ("required", "expected_values", "known_values"):
            object.__setattr__(self, option, respelled(self.columns, getattr(self, option)))
            if strange := [each for each in getattr(self, option) if each not in self.columns]:
                raise ConfigError(f"{option} must name columns that are read, not {', '.join(strange)}")


@typed
def verify_consumer(contract: Contract, expectation: Expectation) -> Finding:
    """Verify that a producer's contract keeps the promises that a consumer relies on.

    Args:
        contract: the producer's contract, published or proposed.
        expectation: the consumer's needs.

    Returns:
        A finding that fails with all ``violations``; the note names consumer, table and version.

    Raises:
        ConfigError: for a value of another type.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> from dedp_assets.patterns.governance._contracts import Quality
        >>> orders = Contract(
        ...     name="silver/orders", version="1.2.0", owner="team:checkout", columns={"status": Column("STRING")},
        ...     quality=Quality(allowed={"status": ["pending", "shipped"]}),
        ... )
        >>> revenue = Expectation(
        ...     consumer="revenue", columns={"status": "STRING"}, expected_values={"status": ["completed"]}
        ... )
        >>> verify_consumer(orders, revenue).note
        'revenue cannot read silver/orders 1.2.0: status is never completed'
    """
    violations = [
        *_columns(contract, expectation),
        *_values(contract, expectation),
        *_service(contract.sla, expectation.sla),
        *_volume(contract, expectation),
    ]
    note = f"{expectation.consumer} cannot read {contract.name} {contract.version}: {'; '.join(violations)}"
    return Finding(
        "contract_keeps_what_the_consumer_needs",
        passed=not violations,
        figures={"violations": violations},
        note=note if violations else "",
    )


@typed
def verify_producer(contract: Contract, records: Sequence[Mapping[str, object]], *, whole_day: bool = False) -> Finding:
    """Verify that sample records of a producer keep the contract.

    Columns, types, required and allowed values, and shares of missing values are verified, as the table verifies the
    records it lands (extra ``contracts``). Rules in SQL are left to the table's gates; these, and parts of a document
    that were not read, are named in ``not_verified``.

    Args:
        contract: the producer's contract.
        records: column -> value, case aside; a date or a time may be a text in ISO 8601, a decimal a text of digits,
            bytes a text in base64.
        whole_day: whether the records are all rows of a day, so that the bounds of its volume hold.

    Returns:
        A finding that fails with all ``violations``, each with the first record that shows it; the note names table and
        version. No records are a violation: they prove nothing.

    Raises:
        ConfigError: for a value of another type.
    """
    samples = Samples(contract.columns)
    violations = [*_samples(contract, samples, records), *(_day(contract, len(records)) if whole_day else ())]
    if not records:
        violations.append("no records: nothing is proved")
    note = f"{contract.name} {contract.version}: {'; '.join(violations)}"
    return Finding(
        "records_keep_the_contract",
        passed=not violations,
        figures={
            "records": len(records),
            "violations": violations,
            "not_verified": [
                *contract.quality.checks,
                *contract.quality.rules,
                *(f"{name} is {kind}" for name, kind in samples.unread.items()),
                *contract.not_read,
            ],
        },
        note=note if violations else "",
    )


def _columns(contract: Contract, expectation: Expectation) -> Iterator[str]:
    """Yield the columns that are missing, or of another type than the consumer reads."""
    for name, kind in expectation.columns.items():
        column = contract.columns.get(*spelled_as(contract.columns, [name]))
        if column is None:
            yield f"{name} is not there"
            continue
        # A reader takes a narrower type, and passes over further fields.
        found = compare_types(name, kind, column.type, fits=lambda read, held: is_widening(held, read, "contract"))
        if any("consumer" in each.breaks for each in found):
            yield f"{name} is {column.type}, read as {kind}"
        if name in expectation.required and not column.required:
            yield f"{name} may be NULL"
    wanted = expectation.partition_by
    if wanted is not None and spelled_as(contract.columns, wanted) != [*contract.partition_by]:
        partitions = ", ".join(contract.partition_by) or "nothing"
        yield f"partitioned by {partitions}, read by {', '.join(wanted) or 'nothing'}"


def _values(contract: Contract, expectation: Expectation) -> Iterator[str]:
    """Yield the values that the consumer never finds, or cannot handle."""
    named = spelled_as(expectation.columns, contract.quality.allowed)
    allowed = dict(zip(named, contract.quality.allowed.values(), strict=True))
    for name, values in expectation.expected_values.items():
        if name in allowed and (never := [each for each in values if each not in allowed[name]]):
            yield f"{name} is never {' or '.join(never)}"
    for name, values in expectation.known_values.items():
        if name not in allowed:
            yield f"{name} may be any value"
        elif unknown := [each for each in allowed[name] if each not in values]:
            yield f"{name} may be {' or '.join(unknown)}, which is not handled"


def _service(promised: Sla, needed: Sla) -> Iterator[str]:
    """Yield the service levels that are promised too weakly or not at all."""
    if needed.fresh_hours is not None and (promised.fresh_hours is None or promised.fresh_hours > needed.fresh_hours):
        yield f"freshness is {_shown(promised.fresh_hours, ' h')}, needed are {needed.fresh_hours:g} h"
    if not needed.due:
        return
    calendars = [(each.zone, {*each.weekdays}) for each in (promised, needed)]
    if not promised.due:
        yield f"no deadline is promised, needed is {needed.deadline}"
    elif calendars[0] != calendars[1] or (promised.days_after, promised.due) > (needed.days_after, needed.due):
        yield f"due {promised.deadline}, needed {needed.deadline}"


def _volume(contract: Contract, expectation: Expectation) -> Iterator[str]:
    """Yield the bounds of a day's volume that are wider than the consumer's."""
    quality = contract.quality
    least, most = expectation.daily_rows_min, expectation.daily_rows_max
    if least is not None and (quality.daily_rows_min is None or quality.daily_rows_min < least):
        yield f"rows of a day: {_shown(quality.daily_rows_min)} at least, needed are {least}"
    if most is not None and (quality.daily_rows_max is None or quality.daily_rows_max > most):
        yield f"rows of a day: {_shown(quality.daily_rows_max)} at most, needed are {most}"


def _samples(contract: Contract, samples: Samples, stated: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield the faults of records, each with the number of records and the first record."""
    found: dict[str, list[int]] = {}
    records = [_by_column(contract, record) for record in stated]
    for number, record in enumerate(records):
        for fault in dict.fromkeys(_faults(contract, samples, record)):
            found.setdefault(fault, []).append(number)
    for fault, numbers in found.items():
        yield f"{fault} ({len(numbers)} of {len(records)} records, first {numbers[0]})"
    for name, most in contract.quality.null_shares.items():
        missing = sum(record.get(name) is None for record in records)
        if records and missing > most * len(records):
            yield f"{name} is missing in {missing} of {len(records)} records, allowed is a share of {most:g}"


def _by_column(contract: Contract, record: Mapping[str, object]) -> dict[str, object]:
    """Return a record by the contract's spelling of the columns; a second value keeps the given name."""
    found = dict[str, object]()
    for name, value in sorted(record.items(), key=lambda item: item[0] not in contract.columns):
        (spelled,) = spelled_as(contract.columns, [name])
        found[name if spelled in found else spelled] = value
    return found


def _faults(contract: Contract, samples: Samples, record: Mapping[str, object]) -> Iterator[str]:
    """Yield the faults of one record."""
    yield from (f"{name} is not in the contract" for name in record if name not in contract.columns)
    misfits = dict(samples.misfits(record))
    for name, column in contract.columns.items():
        value = record.get(name)
        if value is None:
            if column.required:
                yield f"{name} is required and {'NULL' if name in record else 'not there'}"
            continue
        if name in misfits:
            yield f"{name} must be {column.type}, not {misfits[name]}"
        allowed = contract.quality.allowed.get(name)
        if allowed is not None and str(value) not in allowed:
            yield f"{name} must be one of {', '.join(allowed)}, not {value}"


def _day(contract: Contract, rows: int) -> Iterator[str]:
    """Yield the bound that the volume of a day breaks."""
    least, most = contract.quality.daily_rows_min, contract.quality.daily_rows_max
    if least is not None and rows < least:
        yield f"{rows} rows of a day, at least {least} are promised"
    if most is not None and rows > most:
        yield f"{rows} rows of a day, at most {most} are promised"


def _shown(value: float | None, unit: str = "") -> str:
    return "not promised" if value is None else f"{quantity(value)}{unit}"
