"""Persons in a table whose migration moves the column that names them: erasure in each phase."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import SuppressionList, Table, store_at
from dedp_assets.patterns.governance.gdpr_erase import Erasure, erase_person
from dedp_assets.patterns.quality._compatibility.schema_changes import _moved
from dedp_assets.patterns.quality._migration.phases import PHASES
from dedp_assets.patterns.quality.schema_migrator import Migration, migrate_schema
from tests.canaries import Canary, Search, texts_in
from tests.helpers import NOW, a_run
from tests.rotation import rotated

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "a table in each phase of a migration, erased and migrated on")]

ADA = "ada.lovelace@example.com"
TO_RENAME = (
    {"who": Column("STRING", classification="personal", subject="user")},
    {"rename": {"who": "visitor"}},
    lambda name: name,
)
TO_NEST = (
    {"who": Column("STRING", classification="personal", subject="user"), "age": Column("STRING")},
    {"nest": {"visitor": {"id": "who", "age": "age"}}},
    lambda name: name,
)
TO_RENAME_A_RECORD = (
    {"who": Column("STRING", classification="personal", subject="user", subject_by="get_json_object(who, '$.u')")},
    {"rename": {"who": "visitor"}},
    lambda name: f'{{"u": "{name}"}}',
)


KEY = MaskingKey("home", b"32 random bytes, which these are not")


class Migrating:
    """A table of three visitors in a migration, and the list of erased persons beside the table."""

    def __init__(self, spark, folder, moves):
        self.columns, stated, self.written = moves
        self.spark, self.place, self.wide = spark, folder / "visits", "age" in self.columns
        self.migration = Migration(name="v2", grace_days=0, **stated)
        self.gone = SuppressionList(store_at(folder / "suppressed"), KEY)
        table = Table(TableSpec("silver/visits", {"id": Column("INT"), **self.columns}), self.place, spark)
        rows = [(n, self.written(name), *(["9"] * self.wide)) for n, name in enumerate((ADA, "bob", "eve"))]
        made = spark.createDataFrame(rows, "id INT, who STRING" + ", age STRING" * self.wide)
        table.overwrite(made, provenance=a_run())

    def opened(self):
        """The table as whoever opens it now sees it."""
        now = Table.at(self.place, lambda: self.spark, name="silver/visits")
        now.suppression = self.gone
        return now

    def migrate(self, to, at):
        """Take the phases up to one."""
        run = a_run(run_id=f"to-{to}-{at}")
        migrate_schema(self.opened().target(run), at, migration=self.migration, to=to)

    def append_new_form(self, *names):
        """Append rows of visitors in the new form, numbered from 7."""
        rows = self.spark.createDataFrame(
            [(7 + n, self.written(each)) for n, each in enumerate(names)], "id INT, who STRING"
        )
        new = "named_struct('id', who, 'age', '9') visitor" if self.wide else "who AS visitor"
        self.opened().append(rows.selectExpr("id", new), provenance=a_run(run_id="later", sequence=9))

    def ids(self):
        """The numbers of the rows."""
        return sorted(row.id for row in self.opened().read().collect())


@pytest.mark.parametrize(
    ("phase", "moves"),
    [
        pytest.param(phase, moves, id=f"{phase}-{next(iter(moves[1]))}")
        for number, phase in enumerate((None, *PHASES))
        for moves in rotated(number, (TO_RENAME, TO_NEST, TO_RENAME_A_RECORD))
    ],
)
def test_a_person_is_erased_in_any_phase_and_the_migration_goes_on(spark, tmp_path, phase, moves):
    """No byte of the person is left, others are whole after the last phase, and the new form takes nobody back."""
    table = Migrating(spark, tmp_path, moves)
    if phase:
        table.migrate(phase, NOW)
    asked = Erasure(request="T-1", ids={"user": [ADA]}, at=NOW, most=1.0)
    erase_person(asked, [table.opened().target(a_run("erasure", at=NOW + timedelta(days=1)))], table.gone)
    search = Search([Canary("ada", ADA.encode())])
    assert [name for name, text in texts_in(table.place) if search.found(text)] == []
    table.migrate("removed", NOW + timedelta(days=2))
    assert table.ids() == [1, 2]
    table.append_new_form(ADA, "dan")
    assert table.ids() == [1, 2, 8]


def test_two_columns_of_persons_are_not_moved_into_one(spark, tmp_path):
    """One column names persons of one kind."""
    person = {name: Column("STRING", subject=name) for name in ("user", "email")}
    table = Table(TableSpec("silver/visits", person), tmp_path / "visits", spark)
    table.overwrite(spark.createDataFrame([("u", "e")], "user STRING, email STRING"), provenance=a_run())
    moves = Migration(name="v2", nest={"of": {"user": "user", "email": "email"}})
    with pytest.raises(ConfigError, match="at most one of the old columns must name persons"):
        migrate_schema(table.target(a_run()), NOW, migration=moves, to="added")


@pytest.mark.parametrize(
    ("expression", "moved"),
    [
        ("who", "`v`"),
        ("get_json_object(who, '$.who')", "get_json_object(`v`, '$.who')"),
        ("concat(`Who`, whose, t.who, who(1))", "concat(`v`, whose, t.who, who(1))"),
        ("coalesce(dev . os, dev)", "coalesce(`os`, dev)"),
    ],
)
def test_an_expression_of_ids_follows_its_columns(expression, moved):
    """Texts, other columns, fields of others and functions stay."""
    assert _moved(expression, {("who",): "`v`", ("dev", "os"): "`os`"}) == moved
