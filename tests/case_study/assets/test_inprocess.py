"""Runs of this process are runs of the code location; none of these needs Spark, their tables are not ready."""

import pytest

from dedp_assets.graph.checks.stored import STORED
from tests.case_study.assets.conftest import day, world_in

pytestmark = pytest.mark.runs

LOCATION = "__repository__@dedp"


def test_its_runs_are_the_code_locations_own(tmp_path):
    """So the UI lists them in their job's history and can re-execute them."""
    with world_in(tmp_path) as world:
        ended = [world.run("stream_visits"), world.compute("bronze/visits", day(0))]
        assert all(end.failure for end in ended)
        runs = world.platform.instance.get_runs()
        assert [run.job_name for run in runs] == ["__ASSET_JOB", "stream_visits"]
        for run in runs:
            assert run.remote_job_origin.job_name == run.job_name
            assert run.tags[".dagster/repository"] == LOCATION


def test_a_run_that_writes_leaves_out_the_checks_that_run_alone(tmp_path):
    """Its own checks are planned, those of what is stored are not."""
    with world_in(tmp_path) as world:
        world.compute("silver/visits", day(0))
        (run,) = world.platform.instance.get_runs()
        names = {check.name for check in run.asset_check_selection}
        assert "dead_letters_are_few" in names
        assert not names & STORED.keys()
        assert run.step_keys_to_execute == ["silver_visits"]
