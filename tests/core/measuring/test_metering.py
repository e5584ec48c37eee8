"""The meter of a write: phases by a clock of the test, attempts, and a session that tells nothing."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from dedp_assets.patterns.core.measuring import metering
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.metering import Meter


class Clock:
    """Seconds that a test lets pass."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    @contextmanager
    def lock(self, seconds: float):
        self.now += seconds
        yield


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(metering, "monotonic", found)
    return found


def test_each_second_of_a_write_belongs_to_one_phase(clock):
    """Work before the lock is staging, the lock is waiting, and the rest committing, failed attempts included."""
    meter = Meter()
    clock.now += 3
    with meter.waiting(clock.lock(2)):
        for last in meter.trying([False, False, True]):
            clock.now += 1
            found = meter.cost()
            if not last:
                clock.now += 0.5
    assert found == Cost(seconds=9.0, staging_seconds=3.0, waiting_seconds=2.0, committing_seconds=4.0, attempts=3)


def test_a_stage_without_a_publish_has_no_attempt_and_no_wait(clock):
    """What did not happen is absent."""
    meter = Meter()
    clock.now += 3
    assert meter.cost() == Cost(seconds=3.0, staging_seconds=3.0)


def test_an_engine_without_an_account_tells_nothing(clock):
    """A session over Spark Connect has no driver here: CPU and spilled bytes are absent, and not 0."""
    meter = Meter()
    with meter.jobs(object()):
        clock.now += 1
    assert meter.cost().known.keys() == {"seconds", "staging_seconds"}


class Driver:
    """A driver as far as the meter asks it."""

    def __init__(self, jobs: int, forgets: bool = False) -> None:
        self.jobs, self.forgets, self.tags = jobs, forgets, []
        self._jsc = self

    def addJobTag(self, tag):  # noqa: N802 - Spark's name
        self.tags.append(tag)

    def removeJobTag(self, tag):  # noqa: N802 - Spark's name
        self.tags.remove(tag)

    def sc(self):
        return self

    def listenerBus(self):  # noqa: N802 - Spark's name
        return self

    statusTracker = statusStore = listenerBus  # noqa: N815 - Spark's names

    def waitUntilEmpty(self, timeout):  # noqa: N802 - Spark's name
        assert timeout > 0

    def getJobIdsForTag(self, tag):  # noqa: N802 - Spark's name
        assert tag not in self.tags
        return range(self.jobs)

    def job(self, number):
        if self.forgets:
            raise AttributeError("another Spark")
        return Stages(number)

    def lastStageAttempt(self, number):  # noqa: N802 - Spark's name
        return Stage(number)


class Stages:
    """Two stages of a job, of which the second is the next one's first."""

    def __init__(self, number):
        self.number = number

    def stageIds(self):  # noqa: N802 - Spark's name
        return self

    def mkString(self, mark):  # noqa: N802 - Spark's name
        return f"{self.number}{mark}{self.number + 1}"


class Session:
    def __init__(self, driver):
        self.sparkContext = driver
        self._jsparkSession = driver


class Stage:
    def __init__(self, number):
        self.number = number

    def executorCpuTime(self):  # noqa: N802 - Spark's name
        return 10**9

    def diskBytesSpilled(self):  # noqa: N802 - Spark's name
        return 100 * self.number


def used(driver: Driver) -> Cost:
    meter = Meter()
    with meter.jobs(Session(driver)):
        assert len(driver.tags) == 1
    assert driver.tags == []
    return meter.cost()


def test_stages_that_jobs_share_count_once():
    """Two jobs with three stages between them."""
    found = used(Driver(jobs=2))
    assert (found.cpu_seconds, found.bytes_spilled) == (3.0, 300)


@pytest.mark.parametrize("driver", [Driver(jobs=1, forgets=True), Driver(jobs=91)])
def test_an_account_that_cannot_be_whole_is_absent(driver):
    """A Spark that keeps it elsewhere, and more jobs than it remembers."""
    found = used(driver)
    assert found.cpu_seconds is None
    assert found.bytes_spilled is None


def test_a_failed_block_leaves_no_tag():
    """Later jobs of the thread do not count."""
    driver, meter = Driver(jobs=1), Meter()
    with pytest.raises(ValueError, match="no rows"), meter.jobs(Session(driver)):
        raise ValueError("no rows")
    assert driver.tags == []
    assert meter.cost().cpu_seconds is None
