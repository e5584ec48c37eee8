"""README's first example, as it stands, on an empty folder."""

from __future__ import annotations

import re

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns import Table
from tests.helpers import read_back


@pytest.mark.spark
def test_the_first_example_of_the_readme_works_on_an_empty_folder(spark, tmp_path, capsys):
    """One import line and about ten lines; the table that it made opens again by its location alone."""
    readme = (CHECKOUT / "README.md").read_text()
    (example,) = re.findall(
        r"```python\n(.*?)```", readme.partition("## Put one pattern on your own table")[2], re.DOTALL
    )[:1]
    assert example.count("import") == 1
    orders = "CAST(id + 1 AS BIGINT) AS order_id | CAST(id + 0.5 AS DECIMAL(12,2)) AS amount | DATE '2026-01-05' AS day"
    names = {"spark": spark, "rows": spark.range(150).selectExpr(*orders.split(" | "))}
    exec(example.replace("/lake", str(tmp_path)), names)  # noqa: S102 - what a reader would do
    assert capsys.readouterr().out.startswith("150 rows published 1 RowCounts(read=150, written=150")
    again = Table.at(tmp_path / "silver" / "orders", spark)
    assert (again.name, again.spec.partition_by) == ("silver/orders", ("day",))
    assert sorted(row["order_id"] for row in read_back(again)) == [*range(1, 151)]
