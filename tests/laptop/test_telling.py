"""The terminal of `make up`: a line for each run that starts or ends, and for each tick that asks for something."""

from collections import namedtuple
from datetime import datetime, timedelta, timezone

import dagster as dg
import pytest

from dedp_assets.graph.outcomes.run_tags import CAUSE, refusal
from dedp_assets.laptop.telling import Telling

REFUSED = "silver/visits 2026-01-05: nothing published. few_rows: below 10"


@dg.op
def load(context: dg.OpExecutionContext) -> None:
    """Does what the run's tags say."""
    if context.run.tags.get("fate") == "refused":
        context.instance.add_run_tags(context.run.run_id, refusal("silver/visits", "2026-01-05", 3))
        raise dg.Failure(REFUSED)
    if context.run.tags.get("fate") == "broken":
        raise RuntimeError("the disk is full\nand more lines of it")


@dg.job
def daily() -> None:
    """A job of one step."""
    load()


@pytest.fixture(scope="module")
def instance():
    """An instance whose storage takes seconds to make; each test tells what came after it began."""
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def look(instance):
    """``look()``: the lines that a look at the instance says."""
    said = []
    began = datetime.now(timezone.utc)  # noqa: TID251
    telling = Telling(instance, lambda *line: said.append(line), now=began)

    def at(later=timedelta(0)):
        said.clear()
        telling.poll(datetime.now(timezone.utc) + later)  # noqa: TID251
        return list(said)

    return at


def run(instance, **tags):
    """A run of the job in this process; its short id."""
    given = {CAUSE: "landing", "dagster/partition": "2026-01-05", **tags}
    result = daily.execute_in_process(instance=instance, tags=given, raise_on_error=False)
    return result.run_id[:8]


def test_a_run_is_said_once_when_it_starts_and_once_when_it_ends(instance, look):
    """However often one looks."""
    made = instance.create_run_for_job(
        daily, status=dg.DagsterRunStatus.STARTED, tags={CAUSE: "landing", "dagster/partition": "2026-01-05"}
    )
    about = f"daily 2026-01-05 (run {made.run_id[:8]})"
    assert look() == [("started", f"{about}, because of landing")]
    assert look() == []
    instance.report_run_canceled(made)
    assert look() == [("canceled", about)]
    assert look() == []


def test_a_run_that_was_refused_or_failed_says_why_in_one_line(instance, look):
    """What its data are refused for, or the innermost error; and that it is tried again, if it is."""
    runs = {fate: run(instance, fate=fate) for fate in ("", "refused", "broken")}
    assert look() == [
        ("done", f"daily 2026-01-05 (run {runs['']})"),
        ("refused", f"daily 2026-01-05 (run {runs['refused']}): {REFUSED}"),
        ("failed", f"daily 2026-01-05 (run {runs['broken']}): RuntimeError: the disk is full"),
    ]
    died = instance.create_run_for_job(daily, status=dg.DagsterRunStatus.STARTED, tags={"dagster/will_retry": "true"})
    instance.report_run_failed(died, "the process that ran it is gone")
    (line,) = look()
    assert line[1] == f"daily (run {died.run_id[:8]}): the process that ran it is gone; it is tried again"


def test_what_ended_before_is_not_said(instance, look):
    """A terminal tells of its own time."""
    run(instance)
    assert [word for word, _ in look()] == ["done"]
    assert Telling(instance, pytest.fail, now=datetime.now(timezone.utc)).poll(None) is None  # noqa: TID251


def test_a_tick_is_said_once_it_is_over_at_once_or_a_little_later(instance, look, monkeypatch):
    """At once where its sensor notes that it ticked; of one that notes nothing, a few seconds later; nothing twice."""
    states, ticks, asked = {}, {}, []
    state = namedtuple("State", "selector_id instigator_origin_id instigator_name instigator_data")
    tick = namedtuple("Tick", "timestamp status run_ids error")
    over, started = map(namedtuple("Status", "value"), ("SUCCESS", "STARTED"))
    monkeypatch.setattr(instance, "all_instigator_state", lambda: [state(n, n, n, d) for n, d in states.items()])
    ask = lambda _, name, **_options: asked.append(name) or ticks.get(name, [])  # noqa: E731
    monkeypatch.setattr(instance, "get_ticks", ask)
    now = datetime.now(timezone.utc).timestamp()  # noqa: TID251
    states["sensor"] = states["schedule"] = 1
    assert look() == []
    assert look() == []
    assert asked == ["sensor", "schedule"]
    ticks["sensor"] = ticks["schedule"] = [tick(now + 1, started, [], None)]
    states["sensor"] = 2
    assert look() == []
    ticks["sensor"] = [tick(now + 1, over, ["a", "b"], None)]
    ticks["schedule"] = [tick(now + 1, over, ["c"], None)]
    assert look() == [("asks", "sensor asks for 2 runs")]
    assert look() == []
    assert look(timedelta(seconds=11)) == [("asks", "schedule asks for 1 run")]
    assert look(timedelta(seconds=30)) == []
