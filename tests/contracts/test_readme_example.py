"""README's examples, as they stand: what is typed in a new project, and a pattern on a table of one's own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings
from dedp_assets.patterns import Table
from tests.helpers import read_back

pytestmark = pytest.mark.budget(60, "a new project and a process with an engine")

README = (CHECKOUT / "README.md").read_text()
RUN = """
import subprocess, sys
from dedp_assets.cli import main
for day in ("2026-01-05", "2026-01-06", "2026-01-07"):
    assert main(["run", "bronze/orders", day]) == 0
print("SHOWN", flush=True)
assert main(sys.argv[1].split()) == 0
for line in sys.argv[2:]:
    subprocess.run(["bash", "-c", line], check=True)
print("REFUSED", flush=True)
assert main(["run", "bronze/orders", "2026-01-08"]) == 1
"""
"""What the servers of `dedp up` do by themselves, in one process without servers."""


@pytest.mark.slow
def test_what_is_typed_ends_with_the_rows_and_the_refusal_that_the_readme_shows(tmp_path):
    """A project, three days of its sample, rows of gold; then an order that nobody believes, refused in those words."""
    first, second, third = re.findall(r"```console\n(.*?)```", README, re.DOTALL)[:3]
    typed = [re.sub(r"\s{2,}#.*", "", line) for line in re.findall(r"(?m)^\$ (.+)$", first + second)]
    _, new, up, show, *landing = typed
    assert (new, up, show) == ("dedp new my_lake && cd my_lake", "dedp up", "dedp show gold/sales_by_day")
    environment = child_environment({"DEDP_CACHE": str(settings().cache), "DEDP_JIT": "quick"}, without=("DEDP_HOME",))

    def python(*words: str, at) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=at, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("-m", "dedp_assets", "new", "my_lake", at=tmp_path)
    printed = python("-c", RUN, show.removeprefix("dedp "), *landing, at=tmp_path / "my_lake")
    _, shown, refused = re.split("SHOWN|REFUSED", printed)
    rows = re.compile(r"│ (2026-01-\d\d) │ (\d+) +│ ([\d.]+) +│")
    assert sorted(rows.findall(shown)) == sorted(rows.findall(second))
    assert len(rows.findall(second)) == 3
    reason = " ".join(third.partition("): ")[2].split())
    assert reason.startswith("gold/sales_by_day event_date=2026-01-08: nothing published. amounts_are_plausible")
    assert reason in " ".join(refused.split())


@pytest.mark.spark
def test_the_first_example_of_the_readme_works_on_an_empty_folder(spark, tmp_path, capsys):
    """One import line and about ten lines; the table that it made opens again by its location alone."""
    (example,) = re.findall(
        r"```python\n(.*?)```", README.partition("## Put one pattern on your own table")[2], re.DOTALL
    )[:1]
    assert example.count("import") == 1
    orders = "CAST(id + 1 AS BIGINT) AS order_id | CAST(id + 0.5 AS DECIMAL(12,2)) AS amount | DATE '2026-01-05' AS day"
    names = {"spark": spark, "rows": spark.range(150).selectExpr(*orders.split(" | "))}
    exec(example.replace("/lake", str(tmp_path)), names)  # noqa: S102 - what a reader would do
    assert capsys.readouterr().out.startswith("150 rows published 1 RowCounts(read=150, written=150")
    again = Table.at(tmp_path / "silver" / "orders", spark)
    assert (again.name, again.spec.partition_by) == ("silver/orders", ("day",))
    assert sorted(row["order_id"] for row in read_back(again)) == [*range(1, 151)]


def test_the_readme_is_read_in_two_minutes():
    """Lines without code and pictures, words, and where the first command stands."""
    prose = re.sub(r"(?ms)^```.*?^```$", "", README)
    assert len(README.splitlines()) <= 95
    assert len(re.findall(r"[A-Za-z]+", prose)) < 700
    assert README.index("pip install 'dedp[local]'") < README.index("dedp new") < README.index("dedp up")
    assert README.index("dedp up") < README.index("## ") < README.index("make demo") < README.index("make test")
