"""Failures of runs: transient errors to retry, and sentences for people on all other errors."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import dagster as dg
from pyspark.errors.exceptions.connect import SparkConnectException

from dedp_assets.graph.resources.masking import shown
from dedp_assets.patterns.core.errors import AuditFailed, TransactionReused, printable
from dedp_assets.patterns.core.results import BY_NAME, LetterReason
from dedp_assets.patterns.core.running.backoff import Backoff

__all__ = [
    "BEYOND_APPROVAL",
    "LOST_ENGINE",
    "RETRIES",
    "cause_of",
    "failure",
    "failure_of",
    "failure_told",
    "hiding_secrets",
    "is_lost_engine",
    "lost_engine",
    "retry",
    "sentence",
    "step_failures",
    "unexpected",
]

_STEP = Backoff(attempts=3, first_seconds=2)
RETRIES = _STEP.attempts - 1
"""How often a step is tried again after one of them."""
BEYOND_APPROVAL = "cannot be approved"
"""Under this name the metadata of a failure says what no person can overrule."""
LOST_ENGINE = {"dagster/max_retries": str(RETRIES), "dagster/retry_on_asset_or_op_failure": "true"}
"""Tags by which Dagster starts a run that lost its engine again, in a new process, as its session is lost, too."""
_SHOWN = 200
_LOST = ("StatusCode.UNAVAILABLE", "INVALID_HANDLE", "NO_ACTIVE_SESSION")


def retry(number: int) -> dg.RetryRequested:
    """Return a retry request for attempt ``number`` + 1, after a pause that doubles with each attempt."""
    return dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=_STEP.pause(number + 1))


def is_lost_engine(error: BaseException | None) -> bool:
    """Return whether an error, or a cause in the error's chain, is the loss of the shared Spark engine."""
    while error is not None:
        if isinstance(error, SparkConnectException) and any(text in str(error) for text in _LOST):
            return True
        error = error.__cause__ or error.__context__
    return False


def sentence(table: str, key: str, error: Exception) -> str:
    """Return a sentence that names the partition, the reason of the failure and a remedy."""
    message = shown(str(error))
    text = message if key in message else f"{table} {key}: {message}"
    return f"{text.removesuffix('.')}. {what}" if (what := _remedy(" ".join([table, key]).strip(), error)) else text


def unexpected(table: str, key: str, error: Exception) -> dg.Failure:
    """Return the failure for an unexpected error: a sentence, with the stack as metadata."""
    text = printable(" ".join(shown(str(error)).split("\n", 1)[0].split())[:_SHOWN])
    return dg.Failure(
        f"{table} {key}".strip() + f" was not computed and nothing of it is published: {type(error).__name__} in the "
        f"engine or in code ({text}). It is tried again; if it comes back, the stack below says where",
        metadata={"stack": shown("".join(traceback.format_exception(error)))},
        allow_retries=False,
    )


@contextmanager
def hiding_secrets(what: str) -> Iterator[None]:
    """Raise an error with a secret in the text as a failure with the secret masked.

    Args:
        what: the step.
    """
    try:
        yield
    except (dg.Failure, dg.RetryRequested):
        raise
    except Exception as error:
        if cause_of(error):
            raise
        raise unexpected(what, "", error) from None


def cause_of(error: Exception) -> Exception | None:
    """Return an error as the cause of a failure, or ``None`` for an error with a secret in the stack."""
    stack = "".join(traceback.format_exception(error))
    return error if shown(stack) == stack else None


def lost_engine(table: str, key: str) -> dg.Failure:
    """Return the failure for the loss of the shared Spark engine, which needs no action by a person."""
    named = f"{table} {key}".strip()
    text = f"{named}: the Spark engine went away during the run, which is asked for again"
    return dg.Failure(text, allow_retries=False)


def _remedy(named: str, error: Exception) -> str:
    """Return a person's remedy for a refusal, as a command if a command exists."""
    if isinstance(error, TransactionReused):
        return f"To publish them, run it with force: dedp run {named} --force"
    if not isinstance(error, AuditFailed):
        return ""
    refused = [finding for finding in error.findings if finding.refuses]
    if not refused:
        return ""
    mend = "Mend the source or the declaration (dedp letters shows its records). " if error.letters else ""
    if fixed := [finding.name for finding in refused if not finding.approvable]:
        return f"{mend}No approval overrules {', '.join(fixed)}: it waits for corrected data or a fix of the code"
    by_name = "".join(f" --audit {finding.name}" for finding in refused if finding.approvable == BY_NAME)
    return f'{mend}If it is right all the same: dedp approve {named} --by NAME --because "WHY"{by_name}'


def failure(errors: Mapping[str, Exception], sentences: Mapping[str, str]) -> dg.Failure:
    """Return the step's failure, with the refused rows, dead letters, and non-approvable audits.

    Args:
        errors: partition key -> why it was refused.
        sentences: partition key -> the same for people, in order; of partitions that were held back, too.
    """
    refused = {key: error for key, error in errors.items() if isinstance(error, AuditFailed)}
    letters = {key: error.letters for key, error in refused.items() if error.letters}
    return dg.Failure(
        "; ".join(sentences.values()),
        metadata={
            **{f"{key} refused rows".strip(): error.stage or "none" for key, error in refused.items()},
            **{f"{key} dead letters".strip(): _table_of(reasons) for key, reasons in letters.items()},
            **{f"{key} {BEYOND_APPROVAL}".strip(): text for key, text in _beyond_approval(errors).items()},
        },
        allow_retries=False,
    )


def _table_of(reasons: Sequence[LetterReason]) -> dg.TableMetadataValue:
    columns = [
        dg.TableColumn(name, kind)
        for name, kind in (("reason", "string"), ("letters", "bigint"), ("example", "string"))
    ]
    return dg.MetadataValue.table([dg.TableRecord(asdict(each)) for each in reasons], dg.TableSchema(columns))


def _beyond_approval(errors: Mapping[str, Exception]) -> dict[str, str]:
    found = {}
    for key, error in errors.items():
        if isinstance(error, AuditFailed):
            fixed = [finding.name for finding in error.findings if finding.refuses and not finding.approvable]
            found[key] = ", ".join(fixed)
        else:
            found[key] = type(error).__name__
    return {key: text for key, text in found.items() if text}


def failure_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return the sentence that a run failed with; empty if no step failed with a sentence."""
    return failure_told(step_failures(instance, run))


def step_failures(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[dg.DagsterEvent]:
    """List the failures of a run's steps, in order."""
    logs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return [log.dagster_event for log in logs if log.dagster_event]


def failure_told(events: Sequence[dg.DagsterEvent]) -> str:
    """Return the error sentence of the first failed step."""
    if not events:
        return ""
    data = events[0].step_failure_data.user_failure_data
    return (data.description or "") if data else _sentence(events[0])


def _sentence(event: dg.DagsterEvent) -> str:
    """Return the first line of the innermost error of a failed step."""
    error = event.step_failure_data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return shown(error.message.strip().splitlines()[0]) if error else str(event.message)
