"""Attempts at partitions: the one place that makes a retry, a tag or a failure of an error."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.graph.outcomes.run_tags import refusal
from dedp_assets.graph.run.attempts import Attempts
from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady


class Step:
    """The part of Dagster's context that attempts need."""

    def __init__(self, retry_number=0):
        self.retry_number, self.tags = retry_number, {}
        self.run = self.instance = self
        self.run_id, self.parent_run_id = "run-1", None

    def add_run_tags(self, _, tags):
        self.tags |= tags


def attempted(errors, **step):
    """The attempts at one partition for each key, each ended by its error, if any."""
    attempts = Attempts(Step(**step), "silver/x")
    for key, error in errors.items():
        with attempts.at(key):
            if error:
                raise error
    return attempts


@pytest.mark.parametrize("error", [Conflict("another writer"), TimeoutError("no answer"), ConnectionError("reset")])
def test_a_transient_error_is_tried_again_twice(error):
    """Then it is an error like any other, with its sentence."""
    for number in (0, 1):
        with pytest.raises(dg.RetryRequested):
            attempted({"1": None, "2": error}, retry_number=number).raise_retry()
    ended = attempted({"2": error}, retry_number=2)
    ended.raise_retry()
    assert ended.sentences() == {"2": f"silver/x 2: {error}"}


def test_a_refusal_is_what_no_retry_mends():
    """It is tagged with the refused version; what is not ready yet is no refusal."""
    attempts = attempted({"1": ContractError("repeated keys"), "2": NotReady("no rows yet"), "3": TimeoutError()})
    attempts.tag_refused(lambda key: f"8 of {key}")
    assert attempts.context.tags == refusal("silver/x", "1", "8 of 1")


def test_an_unforeseen_error_is_a_failure_before_any_retry():
    """The others' transient errors wait for the run that comes after it."""
    attempts = attempted({"1": TimeoutError("no answer"), "2": ZeroDivisionError("division by zero")})
    attempts.raise_retry()
    with pytest.raises(dg.Failure, match="silver/x 2 was not computed") as failed:
        attempts.raise_broken()
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    attempted({"1": None}).raise_broken()
