"""Suppression list: keyed hashes of erased persons, one file for each request."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import datetime, timezone
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError, Conflict
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import RowCounts, Split
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, SuppressionList, Table, Update, store_at, subjects_of
from tests.helpers import a_run, read_back

KEY = MaskingKey("home", b"32 random bytes, which these are not")
AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
USERS_TEXT = "id INT, who STRING, day STRING"
MOVED = Merge(["id"], [Update({"day": "s.day"})])


@pytest.fixture
def listed(tmp_path):
    return SuppressionList(store_at(tmp_path / "_suppressed"), KEY)


def test_a_request_that_is_repeated_is_one_request(listed):
    """The second call finds the file of the first, and changes nothing; other persons need another name."""
    assert listed.add("T-1", {"user": ["ada"]}, at=AT, because="asked")
    assert not listed.add("T-1", {"user": ["ada"]}, at=AT, because="asked again")
    with pytest.raises(ConfigError, match="T-1 must name the persons that it named before"):
        listed.add("T-1", {"user": ["bob"]}, at=AT, because="asked")
    assert listed.among("user", ["ada", "bob"]) == {"ada"}


def test_a_request_has_the_first_time_of_each_step(listed):
    """A step that is done again was done before; a lifted request has no times, and may be made again."""
    assert listed.times("T-1") == {}
    listed.add("T-1", {"user": ["ada"]}, at=AT, because="asked")
    assert listed.times("T-1") == {"requested": AT}
    later = AT.replace(day=6)
    listed.note(["T-1"], "executed", later)
    listed.note(["T-1"], "executed", AT.replace(day=7))
    listed.note(["T-1"], "purged", AT.replace(day=8))
    assert listed.times("T-1") == {"requested": AT, "executed": later, "purged": AT.replace(day=8)}
    assert listed.among("user", ["ada"]) == {"ada"}
    listed.lift("T-1")
    assert listed.times("T-1") == {}


def test_an_id_of_another_kind_is_another_person(listed):
    """A device may have the id of a user."""
    listed.add("T-1", {"user": ["7"]}, at=AT, because="asked")
    assert listed.among("device", ["7"]) == frozenset()


def test_the_folder_holds_no_id(listed, tmp_path):
    """Neither in the clear nor as a plain hash, and no key."""
    listed.add("T-1", {"user": ["ada@example.com"]}, at=AT, because="asked")
    (file,) = (tmp_path / "_suppressed").glob("*.json")
    content = file.read_bytes()
    assert b"ada" not in content
    assert KEY.secret not in content
    assert len(json.loads(content)["persons"]["user"][0]) == 64


def test_a_list_of_another_key_is_refused(listed):
    """Otherwise every person on it would be written again, and nobody would see it."""
    listed.add("T-1", {"user": ["ada"]}, at=AT, because="asked")
    with pytest.raises(ConfigError, match="the key other must be the one of the suppression list"):
        SuppressionList(listed.store, MaskingKey("other", b"32 other bytes, which are not random")).digests()


@pytest.mark.parametrize(("request_", "ids"), [("", ["ada"]), ("a/b", ["ada"]), ("T-1", [" "])])
def test_a_request_without_a_name_or_an_id_is_refused(listed, request_, ids):
    """Nothing is written."""
    with pytest.raises(ConfigError, match="must"):
        listed.add(request_, {"user": ids}, at=AT, because="asked")
    assert listed.digests() == {}


def test_a_lifted_request_suppresses_nobody(listed):
    """A person may come back under the former id."""
    listed.add("T-1", {"user": ["ada"]}, at=AT, because="asked")
    listed.lift("T-1")
    assert listed.among("user", ["ada"]) == frozenset()


@given(st.dictionaries(st.sampled_from(["T-1", "T-2", "T-3"]), st.sets(st.text(min_size=1).filter(str.strip))))
def test_the_list_holds_the_ids_of_its_requests(tmp_path_factory, requests):
    """And no other ones, whatever their letters."""
    listed = SuppressionList(store_at(tmp_path_factory.mktemp("list")), KEY)
    for request, ids in requests.items():
        listed.add(request, {"user": ids}, at=AT, because="asked")
    expected = set().union(*requests.values())
    assert listed.among("user", [*expected, "nobody else"]) == expected - ({"nobody else"} - expected)


def test_the_subjects_of_a_table_are_expressions_by_kind():
    """Of a column with the id the column, in the spelling of SQL, of another one its expression."""
    spec = TableSpec(
        "visits",
        {
            "user id": Column("STRING", subject="user"),
            "raw": Column("STRING", subject="user", subject_by="raw:user"),
            "page": Column("STRING"),
        },
    )
    assert subjects_of(spec) == {"user": ["`user id`", "raw:user"]}


def test_an_expression_without_a_kind_is_refused():
    """Nobody knows whose ids the ids are."""
    with pytest.raises(ConfigError, match='subject must be the kind of person, such as "user", not empty'):
        Column("STRING", subject_by="raw:user")


def test_rows_of_a_listed_person_are_left_out(listed, spark):
    """NULL is nobody, and stays."""
    rows = spark.createDataFrame([(1, "ada"), (2, "bob"), (3, None)], "id INT, who STRING")
    assert listed.without(rows, "user", "who") is rows
    listed.add("T-1", {"user": ["ada"]}, at=AT, because="asked")
    left = listed.without(rows, "user", "who")
    assert sorted(row.id for row in left.collect()) == [2, 3]
    shown = StringIO()
    with redirect_stdout(shown):
        left.explain(extended=True)
    assert "ada" not in shown.getvalue()
    assert KEY.secret.hex() not in shown.getvalue()


USERS = TableSpec(
    "silver/users",
    {"id": Column("INT"), "who": Column("STRING", subject="user"), "day": Column("STRING")},
    partition_by=("day",),
)


@pytest.fixture
def users(tmp_path, spark, listed):
    """A table that leaves out ada and 7."""
    table = Table(USERS, tmp_path / "silver" / "users", spark)
    table.suppression = listed
    listed.add("T-1", {"user": ["ada", "7"]}, at=AT, because="asked")
    return table


def rows_of(table):
    return [tuple(row.values()) for row in read_back(table)]


def test_a_write_leaves_out_erased_persons_and_accounts_for_them(users, spark):
    """By count and by identity, with and without a tally, as filtered rows."""
    landed = spark.createDataFrame([(1, "ada", "mon"), (2, "bob", "mon"), (3, None, "mon")], USERS_TEXT)
    counted, seen = tally(landed, identity=["id"])
    audits = [
        Audit(name="sum", of="ids", sql="sum(id)", fail_below=6),
        Audit(name="few", of="ads", where="who = 'ada'", fail_above=0),
    ]
    for rows, read in ((landed, RowsRead()), (counted, RowsRead(tally=seen))):
        done = users.stage(rows, partition={"day": "mon"}, provenance=a_run(), audits=audits, rows_read=read).publish()
        assert rows_of(users) == [(2, "bob", "mon"), (3, None, "mon")]
        assert done.rows == RowCounts(read=3, written=2, filtered=1)
        # An audit's own aggregate is about all that came, a count about the rows that are written.
        assert (done.figures["erased"], done.figures["ids"], done.figures["ads"]) == (1, 6, 0)


def test_a_part_of_a_split_leaves_out_erased_persons(users, spark):
    """Whatever the outcome of their rows."""
    flagged = spark.createDataFrame(
        [(1, "ada", "mon", "valid"), (2, "bob", "mon", "valid"), (3, "7", "mon", "dead"), (4, "cy", "mon", "dead")],
        f"{USERS_TEXT}, {OUTCOME} STRING",
    )
    split = Split(flagged, {"valid": ("id", "who", "day"), "dead": ("id", "who", "day")}, identity=("id",))
    done = users.stage(split, partition={"day": "mon"}, provenance=a_run(), also=["dead"]).publish()
    assert rows_of(users) == [(2, "bob", "mon")]
    assert done.rows == RowCounts(read=4, written=1, dead=1, filtered=2)


def test_a_merge_leaves_out_erased_persons(users, spark):
    """Also one whose source has no column of persons, which then names none."""
    source = spark.createDataFrame([(1, "ada", "mon"), (2, "bob", "mon")], USERS_TEXT)
    users.merge(source, Merge(["id"], [Update(), Insert()]), provenance=a_run())
    assert rows_of(users) == [(2, "bob", "mon")]
    users.merge(spark.createDataFrame([(2, "tue")], "id INT, day STRING"), MOVED, provenance=a_run())
    assert rows_of(users) == [(2, "bob", "tue")]


def test_an_expression_that_cannot_be_computed_is_refused(users, spark):
    """Before a row is written: otherwise the person would come back."""
    wrong = replace(USERS.columns["who"], subject_by="nobody.there")
    users.spec = replace(USERS, columns={**USERS.columns, "who": wrong})
    landed = spark.createDataFrame([(1, "ada", "mon")], USERS_TEXT)
    with pytest.raises(ConfigError, match="silver/users: subject_by must be SQL over the table's columns, not nobody"):
        users.stage(landed, partition={"day": "mon"}, provenance=a_run())


def test_rows_that_were_staged_before_an_erasure_are_not_published(users, spark):
    """Neither of a stage nor of a merge: whoever was erased meanwhile may be among them."""
    landed = spark.createDataFrame([(1, "eve", "mon"), (2, "bob", "mon")], USERS_TEXT)
    staged = users.stage(landed, partition={"day": "mon"}, provenance=a_run())
    users.suppression.add("T-2", {"user": ["eve"]}, at=AT, because="asked")
    with pytest.raises(Conflict, match="silver/users: a person was erased since these rows were read: run it again"):
        staged.publish()
    users.stage(landed, partition={"day": "mon"}, provenance=a_run()).publish()
    assert rows_of(users) == [(2, "bob", "mon")]
    source = spark.createDataFrame([(3, "cy", "mon")], USERS_TEXT)

    def erased_meanwhile(*_):
        users.suppression.add("T-3", {"user": ["cy"]}, at=AT, because="asked")

    users.on_rows = erased_meanwhile
    with pytest.raises(Conflict, match="a person was erased"):
        users.merge(source, Merge(["id"], [Update(), Insert()]), provenance=a_run())
    users.on_rows = None
    users.merge(source, Merge(["id"], [Update(), Insert()]), provenance=a_run())
    users.delete("id = 7", provenance=a_run())
    users.clear(partition={"day": "tue"}, provenance=a_run())
    assert rows_of(users) == [(2, "bob", "mon")]
