"""What is wrong with a run: which errors may pass, and what the others tell people."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from dedp_assets.patterns.core.errors import AuditFailed, Conflict, TransactionReused

__all__ = ["BEYOND_APPROVAL", "RETRIES", "TRANSIENT", "failure", "retry", "sentence"]

TRANSIENT = (Conflict, TimeoutError, ConnectionError)
"""Errors that may pass by themselves."""
RETRIES = 2
"""How often a step is tried again after one of them."""
BEYOND_APPROVAL = "cannot be approved"
"""Under this name the metadata of a failure says what no person can overrule."""
_FIRST_WAIT_SECONDS = 2


def retry(number: int) -> dg.RetryRequested:
    """Ask for attempt ``number`` + 1, after a pause that doubles each time."""
    return dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=_FIRST_WAIT_SECONDS * 2**number)


def sentence(table: str, key: str, error: Exception) -> str:
    """Say in one sentence that names the partition why it was not computed."""
    said = str(error) if key in str(error) else f"{table} {key}: {error}"
    if isinstance(error, TransactionReused):
        return f"{said}. To publish them, run it with force (dedp run {' '.join([table, key]).strip()} --force)"
    return said


def failure(errors: Mapping[str, Exception], sentences: Mapping[str, str]) -> dg.Failure:
    """Fail the step, with the stages of refused rows and with what nobody can approve.

    Args:
        errors: partition key -> why it was refused.
        sentences: partition key -> the same for people, in order; of partitions that were held back, too.
    """
    stages = {key: e.stage or "none" for key, e in errors.items() if isinstance(e, AuditFailed)}
    return dg.Failure(
        "; ".join(sentences.values()),
        metadata={
            **{f"{key} refused rows".strip(): stage for key, stage in stages.items()},
            **{f"{key} {BEYOND_APPROVAL}".strip(): said for key, said in _beyond_approval(errors).items()},
        },
        allow_retries=False,
    )


def _beyond_approval(errors: Mapping[str, Exception]) -> dict[str, str]:
    found = {}
    for key, error in errors.items():
        if isinstance(error, AuditFailed):
            fixed = [finding.name for finding in error.findings if finding.refuses and not finding.approvable]
            found[key] = ", ".join(fixed)
        else:
            found[key] = type(error).__name__
    return {key: said for key, said in found.items() if said}
