"""Queries that end at the rows available now: which faults of the engine they outlive, and what they count then."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock
from zipfile import ZipFile

import pyspark
import pytest
from pyspark.errors import StreamingQueryException

from dedp_assets.patterns.connectors.kafka.streaming import _NO_WORKER, Ran, run_available
from dedp_assets.patterns.core.errors import NotReady

NO_WORKER = StreamingQueryException("[STREAM_FAILED] Query ended: Python worker failed to connect back. SQLSTATE: X")
REFUSED = StreamingQueryException("dedp_assets.patterns.core.errors.NotReady: no rows yet")
BATCH = {"stateOperators": [{"numRowsDroppedByWatermark": 1, "numRowsTotal": 7}]}


def query(end):
    """A query that ends so, after a micro-batch with a late row."""
    return Mock(recentProgress=[BATCH], awaitTermination=Mock(side_effect=[end]))


def run(*starts):
    """A function that runs a stream whose starts give these queries or errors; the starts that it made."""
    stream = Mock()
    with_checkpoint = stream.writeStream.foreachBatch.return_value.option
    writer = with_checkpoint.return_value.trigger.return_value
    writer.start.side_effect = starts

    def ran():
        try:
            return run_available(stream, Mock(), SimpleNamespace(address="there"))
        finally:
            with_checkpoint.assert_called_once_with("checkpointLocation", "there")

    return ran, writer.start


def test_spark_has_the_words_by_which_a_late_process_is_told():
    """In the class that waits for a Python process: with other words, no query would be started again."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-core_*.jar")
    with ZipFile(jar) as classes:
        assert _NO_WORKER.encode() in classes.read("org/apache/spark/api/python/PythonWorkerFactory.class")


@pytest.mark.parametrize("at_start", [True, False])
def test_a_query_whose_python_process_was_late_is_started_again(at_start):
    """From its checkpoint, so that each row comes once; the late rows of all starts add up."""
    late = [NO_WORKER if at_start else query(NO_WORKER) for _ in range(2)]
    ran, start = run(*late, last := query(None))
    assert ran() == Ran(dropped_by_watermark=1 if at_start else 3, state_rows=7)
    assert start.call_count == 3
    for stopped in [last] if at_start else [*late, last]:
        stopped.stop.assert_called_once()


def test_the_third_late_process_ends_the_run():
    """A machine on which none starts needs somebody to look."""
    ran, start = run(*[query(NO_WORKER) for _ in range(3)])
    with pytest.raises(StreamingQueryException, match="failed to connect back"):
        ran()
    assert start.call_count == 3


@pytest.mark.parametrize(
    ("error", "raised"), [(REFUSED, NotReady), (StreamingQueryException("no space"), StreamingQueryException)]
)
def test_any_other_fault_ends_the_run_at_once(error, raised):
    """An error of the sink comes as it was raised, and nothing is tried again that would fail again."""
    ran, start = run(failed := query(error))
    with pytest.raises(raised):
        ran()
    start.assert_called_once()
    failed.stop.assert_called_once()
