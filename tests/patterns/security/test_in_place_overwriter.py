"""In-Place Overwriter."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.connectors.encoding.formats import Csv, JsonLines, Parquet
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import LocalStore, Table
from dedp_assets.patterns.delta.maintenance import hold_partition, purge
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.security import in_place_overwriter
from dedp_assets.patterns.security.in_place_overwriter import Removal, overwrite_files, purge_removed, remove_rows
from tests.canaries import Search, people, texts_in
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back, rows_at
from tests.two_runs import two_runs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(45, "tables that are purged, and folders killed within an exchange"),
]

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
GONE, STAYS = people(2)
ID, OTHER = GONE.value.decode(), STAYS.value.decode()
AT_ONCE = {"retention_hours": 0, "allow_unsafe": True}


def hits(folder, canary=GONE):
    search = Search([canary])
    return [name for name, content in texts_in(folder) if search.found(content)]


def asked(*ids, **more):
    return [Removal(request=f"R-{number}", id=each, **more) for number, each in enumerate(ids, 1)]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_an_id_is_in_no_representation_and_no_error():
    """Whatever is printed of a request names the request."""
    assert ID not in repr(asked(ID))
    with pytest.raises(ConfigError) as refused:
        overwrite_files([*asked(ID), Removal(request="R-9", id=" ")], "/nowhere", key="user")
    assert "R-9" in str(refused.value)
    assert ID not in str(refused.value)


@pytest.mark.parametrize(
    ("requests", "most", "said"),
    [
        ([], 0.1, "at least one person"),
        (asked(None), 0.1, "an id, not be empty as R-1"),
        (asked("a", "", "\t"), 0.1, "R-2, R-3"),
        ([*asked("a"), *asked("b")], 0.1, "not share R-1"),
        (asked("a"), 0.0, "most must be a share"),
        (asked("a"), 1.5, "most must be a share"),
    ],
)
def test_a_batch_that_cannot_be_meant_is_refused_before_anything_is_read(requests, most, said):
    """An empty id, a name that is there twice, a share that is none."""
    with pytest.raises(ConfigError, match=said):
        overwrite_files(requests, "/nowhere", key="user", most=most)


def test_a_request_is_not_named_by_the_person():
    """Its name is in results and logs."""
    with pytest.raises(ConfigError, match="not be the id"):
        Removal(request="x", id="x")


# --- tables -----------------------------------------------------------------------------------------------------------

COLUMNS = {"user": Column("STRING"), "n": Column("BIGINT", required=True), "day": Column("DATE", required=True)}
NUMBERED = {"user-id": Column("BIGINT"), "note": Column("STRING"), "day": Column("DATE", required=True)}
DAYS = ("2026-01-05", "2026-01-06")


@pytest.fixture(scope="module")
def make(spark, tmp_path_factory):
    """Makes tables of rows, one file for each."""
    root, numbers = tmp_path_factory.mktemp("lake"), itertools.count()

    def made(columns, *files, key=(), **properties):
        spec = TableSpec(f"silver/t{next(numbers)}", columns, ("day",), key=tuple(key), properties=properties)
        table = Table(spec, root / spec.name, spark)
        kinds = ", ".join(f"`{name}` {column.type}" for name, column in columns.items())
        for sequence, rows in enumerate(files, 1):
            typed = [(*row[:-1], datetime.fromisoformat(row[-1]).date()) for row in rows]
            frame = spark.createDataFrame(typed, kinds).coalesce(1)
            if key:
                table.overwrite(frame, partition={"day": rows[0][-1]}, provenance=a_run(spec.name))
            else:
                table.append(frame, provenance=a_run(spec.name, sequence=sequence))
        return table

    return made


def rows_of(table):
    return sorted((tuple(row.values()) for row in rows_at(table.store)), key=repr)


def remove(table, requests, key="user", now=NOW, **options):
    return remove_rows(requests, table.target(a_run(table.name)), key=key, now=now, **{"most": 0.6, **options})


def test_a_person_is_in_no_byte_of_the_table(make):
    """Acceptance 1 and 6: gone from rows, files, log and older versions; others are equal, also without an id."""
    rows = [[(ID, 1, day), (OTHER, 2, day), (None, 3, day), (ID.upper(), 4, day)] for day in DAYS]
    table = make(COLUMNS, *rows)
    before = rows_of(table)
    assert hits(table.location)
    result = remove(table, asked(ID, "nobody"), **AT_ONCE)
    assert result.figures["requests"] == {"R-1": "removed 2 rows", "R-2": "nothing found"}
    assert (result.applied, result.figures["rows_removed"]) == (True, 2)
    after = rows_of(table)
    assert after == [row for row in before if row[0] != ID]
    # The search reads letters of either case as equal, and there is another person of the name in capitals.
    assert all(ID.encode() not in content for _, content in texts_in(table.location))
    assert hits(table.location, STAYS)
    with pytest.raises(ConfigError, match="begins at version"):
        table.read(version="1")


def test_a_batch_is_one_rewrite_with_a_status_of_each_request(make):
    """Acceptance 3: a thousand requests are one commit, and a rerun (7) finds nothing and commits nothing."""
    rows = [(f"user-{n}", n, DAYS[n % 2]) for n in range(3000)]
    table = make(COLUMNS, rows[::2], rows[1::2], key=("day", "n"))
    version = table.ledger.version()
    batch = asked(*[f"user-{n}" for n in range(2500, 3500)])
    result = remove(table, batch)
    assert (result.version, table.ledger.version()) == (version + 1, version + 1)
    statuses = result.figures["requests"]
    assert [statuses[f"R-{n}"] for n in (1, 500, 501, 1000)] == ["removed 1 rows"] * 2 + ["nothing found"] * 2
    assert len(statuses) == 1000
    assert len(rows_of(table)) == 2500
    again = remove(table, batch)
    assert (again.applied, table.ledger.version()) == (False, version + 1)
    assert {*again.figures["requests"].values()} == {"nothing found"}
    commit = table.ledger.commit(version + 1)
    raw = table.ledger.files.raw(version + 1)
    assert b"user-2500" not in raw.replace(b'\\"', b'"').split(b'"commitInfo"')[1].split(b"\n")[0]
    assert commit.record.notes["removal"]["requests"] == 1000


def test_files_that_cannot_hold_an_id_keep_name_and_bytes(make):
    """Acceptance 4: also of one within the bounds of the batch, and of one that holds no id within its own."""
    spans = [range(10), range(500, 600), range(900, 910), range(0, 2000, 999)]
    table = make(NUMBERED, *[[(n, f"x{n}", DAYS[0]) for n in span] for span in spans])
    kept = {*_files(table)}
    result = remove(table, asked("5", "905"), key="user-id")
    assert result.figures["rows_removed"] == 2
    after = {*_files(table)}
    assert len(kept & after) == 2
    commit = table.ledger.commit(result.version)
    assert commit.metrics["numRemovedFiles"] == "2"


def _files(table):
    return [file["path"] for file in table.ledger.state().files()]


def test_a_wrong_key_is_refused_before_the_write(make):
    """Acceptance 5: one id of most rows by a status, too large a batch by an error; RESTORE helps until the purge."""
    table = make(COLUMNS, [("test", n, DAYS[0]) for n in range(8)] + [("a", 8, DAYS[0]), ("b", 9, DAYS[0])])
    version = table.ledger.version()
    result = remove(table, asked("test", "a"), most=0.1)
    assert result.figures["requests"] == {
        "R-1": "refused: matches 8 of 10 rows, more than the share of 0.1",
        "R-2": "removed 1 rows",
    }
    with pytest.raises(ContractError, match=r"the batch matches 9 of 9 rows, more than the share of 0\.9") as refused:
        remove(table, asked("test", "b"), most=0.9)
    assert "test id" in str(refused.value)
    assert table.ledger.version() == version + 1
    assert remove(table, asked("test"), most=1.0).figures["rows_removed"] == 8
    table.restore(version, provenance=a_run(table.name, run_id="back"))
    assert len(rows_of(table)) == 10


def test_the_purge_waits_for_the_retention_and_is_compared_with_the_deadline(make):
    """Acceptance 8: too short is refused unless asked for by name; the times are recorded, and lateness is found."""
    table = make(COLUMNS, [(ID, 1, DAYS[0]), (OTHER, 2, DAYS[0])])
    with pytest.raises(ConfigError, match=r"retention_hours must be at least the 168 h that are safe, not 0"):
        remove(table, asked(ID), retention_hours=0)
    result = remove(table, asked(ID, received=NOW - timedelta(days=22)))
    assert result.figures["purge_due"] == (NOW + timedelta(hours=168)).isoformat()
    assert [(f.name, f.passed) for f in result.findings][-1] == ("purge_is_within_the_deadline", True)
    assert hits(table.location)
    into = table.target(a_run(table.name))
    with pytest.raises(NotReady, match="is due at 2026-01-27"):
        purge_removed(into, now=NOW + timedelta(hours=167))
    late = purge_removed(into, now=NOW + timedelta(days=9))
    assert (late.applied, [f.passed for f in late.findings]) == (True, [False])
    assert hits(table.location) == []
    assert not purge_removed(into, now=NOW + timedelta(days=10)).applied
    soon = remove(table, asked(OTHER, received=NOW - timedelta(days=25)), most=1.0)
    assert [f.passed for f in soon.findings][-1] is False


def test_what_cannot_be_purged_is_not_removed(make):
    """A legal hold is named, a column that is not there, too; the rows stay."""
    table = make(COLUMNS, [(ID, 1, DAYS[0]), (OTHER, 2, DAYS[0])])
    with pytest.raises(ConfigError, match="users"):
        remove(table, asked(ID), key="users")
    hold_partition(table, {"day": DAYS[0]}, by="legal", because="case", run=a_run(table.name), release=False)
    with pytest.raises(ContractError, match="on legal hold"):
        remove(table, asked(ID))
    assert len(rows_of(table)) == 2


def test_rows_that_arrive_meanwhile_are_kept_and_found_by_the_next_run(make, spark, monkeypatch):
    """Acceptance 7: an append between the count and the commit is no loss; of a person it is removed by a rerun."""
    table = make(COLUMNS, [(ID, 1, DAYS[0]), (OTHER, 2, DAYS[0]), (OTHER, 3, DAYS[0])])
    counted, late = in_place_overwriter._counted, iter([1])

    def counting(*arguments):
        found = counted(*arguments)
        for _ in late:
            rows = [("new", 4, DAYS[0]), (ID, 5, DAYS[0])]
            frame = spark.createDataFrame(
                [(user, n, datetime.fromisoformat(day).date()) for user, n, day in rows],
                "user STRING, n BIGINT, day DATE",
            )
            table.append(frame, provenance=a_run(table.name, sequence=99))
        return found

    monkeypatch.setattr(in_place_overwriter, "_counted", counting)
    remove(table, asked(ID))
    assert {row[0] for row in rows_of(table)} <= {OTHER, "new", ID}
    remove(table, asked(ID), **AT_ONCE)
    assert [row[:2] for row in rows_of(table)] == sorted([(OTHER, 2), (OTHER, 3), ("new", 4)], key=repr)
    assert hits(table.location) == []


def test_killed_before_the_purge_the_next_run_completes_it(make, monkeypatch):
    """The rows are gone by then, so that the batch finds nothing, and purges all the same."""
    table = make(COLUMNS, [(ID, 1, DAYS[0]), (OTHER, 2, DAYS[0])])
    with monkeypatch.context() as patch:
        patch.setattr(purge, "_cut_log", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            remove(table, asked(ID), **AT_ONCE)
    assert hits(table.location)
    assert remove(table, asked(ID), **AT_ONCE).figures["requests"] == {"R-1": "nothing found"}
    assert hits(table.location) == []
    assert [row["user"] for row in read_back(table)] == [OTHER]


@pytest.mark.parametrize(
    "properties", [{"delta.enableChangeDataFeed": "true"}, {"delta.enableDeletionVectors": "true"}]
)
def test_plans_and_tables_of_every_kind_have_no_id(make, spark, properties):
    """A change feed and deletion vectors; the id is in no plan that Spark shows."""
    table = make(COLUMNS, [(ID, 1, DAYS[0]), (OTHER, 2, DAYS[0]), (None, 3, DAYS[0])], **properties)
    plans = []
    real = type(spark.range(1)).collect
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(spark.range(1), "_jdf"):
            patch.setattr(type(spark.range(1)), "collect", lambda f: (plans.append(_plan(f)), real(f))[1])
        remove(table, asked(ID), **AT_ONCE)
    assert [plan for plan in plans if ID in plan] == []
    assert [row[0] for row in rows_of(table)] == sorted([OTHER, None], key=repr)
    assert hits(table.location) == []


def _plan(frame):
    return frame._jdf.queryExecution().toString()


# --- files ------------------------------------------------------------------------------------------------------------


@known_calls
def calls_that_work(known):
    (known.folder / "events").mkdir()
    (known.folder / "events" / "a.json").write_text(line("ada", 1) + line("bob", 2))
    return {
        "purge_removed": {"into": known.table("removed", "user STRING, n INT").target(known.run), "now": NOW},
        "overwrite_files": {
            "requests": asked("ada"),
            "folder": known.folder / "events",
            "key": "user",
            "form": JsonLines(),
            "most": 0.5,
        },
    }


def removals(world, **options):
    """A removal of a person, and rows of this and of other persons that arrive meanwhile."""
    columns = "user STRING, n INT, day STRING"
    world.table("visits", columns, by=["day"])
    rows = [("ada", 1, "mon"), ("bob", 2, "mon"), ("bob", 3, "tue")]
    for day in ("mon", "tue"):
        held = [row for row in rows if row[2] == day]
        overwrite_partition(world.frame(columns, *held), world.into("visits", f"base {day}", day))
    batch = [Removal(request="R-1", id="ada")]
    yield lambda w: remove_rows(batch, w.into("visits", "removal"), key="user", now=NOW, most=1.0, **options)
    late = ("ada", 4, "mon"), ("eve", 5, "mon")
    yield lambda w: overwrite_partition(w.frame(columns, *late), w.into("visits", "2", "mon"))


@two_runs()
def removed_at_once(world):
    return removals(world)


@two_runs(under_one_lock=True)
def removed_and_purged_at_once(world):
    return removals(world, **AT_ONCE)


@two_runs(under_one_lock=True)
def purged_at_once(world):
    remove, overwrite = removals(world)
    remove(world)
    yield lambda w: purge_removed(w.into("visits", "purge"), now=NOW + timedelta(days=8))
    yield overwrite


def snapshot(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def line(user, n):
    return json.dumps({"n": n, "user": user}, ensure_ascii=False) + "\n"


@pytest.fixture
def folder(tmp_path):
    """Lines of JSON in three files, one of them without the person."""
    root = tmp_path / "events"
    (root / "day=1").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "day=1" / "a.json").write_text(line(ID, 1) + line(OTHER, 2) + line(None, 3))
    (root / "b.json.gz").write_bytes(gzip.compress((line("x", 4) + line(ID, 5) * 2).encode()))
    (root / "c.json").write_text("".join(line(f"u{n}", n) for n in range(20)))
    (root / "_SUCCESS").touch()
    return root


def test_lines_of_others_keep_their_bytes_and_their_files(folder):
    """Odd spelling, carriage returns, a byte order mark, lines that are no JSON, and no line feed at the end."""
    odd = [
        b'\xef\xbb\xbf{"user" : "a" ,"x":1.0e1}\r\n', b"\n", b"no json\n", b"\xff\xfe\n", b'{"user":["a"]}\n',
        f'{{"user": "{ID}"}}\r\n'.encode(), json.dumps({"user": ID}).encode() + b"\n", b'{"user": {"id": 7}}\n',
        b'{"user": null, "n": 12345678901234567890123}',
    ]  # fmt: skip
    (folder / "c.json").write_bytes(b"".join(odd))
    untouched = (folder / "day=1" / "a.json").stat().st_ino
    (folder / "day=1" / "a.json").write_text(line(OTHER, 2))
    result = overwrite_files(asked(ID), str(folder), key="user", most=0.6)
    assert (folder / "c.json").read_bytes() == b"".join(odd[:5] + odd[7:])
    assert gzip.decompress((folder / "b.json.gz").read_bytes()) == line("x", 4).encode()
    assert (folder / "day=1" / "a.json").stat().st_ino == untouched
    assert ((folder / "empty").is_dir(), (folder / "_SUCCESS").exists()) == (True, True)
    assert result.figures["requests"] == {"R-1": "removed 4 rows"}
    names = ("records_removed", "files_rewritten", "files", "records_unread")
    assert [result.figures[name] for name in names] == [4, 2, 4, 2]
    assert result.rows.unaccounted == 0
    assert hits(folder.parent) == []
    again = overwrite_files(asked(ID), str(folder), key="user")
    assert (again.applied, again.figures["requests"]) == (False, {"R-1": "nothing found"})
    assert sorted(path.name for path in folder.parent.iterdir() if path.is_dir()) == ["events"]


def test_a_folder_that_matches_too_much_stays(folder):
    """Acceptance 5 of files: nothing is written beside either."""
    before = snapshot(folder.parent)
    with pytest.raises(ContractError, match="more than the share"):
        overwrite_files(asked(*[f"u{n}" for n in range(20)]), str(folder), key="user", most=0.5)
    result = overwrite_files(asked(ID), str(folder), key="user", most=0.05)
    assert result.figures["requests"]["R-1"].startswith("refused: matches 3 of 26")
    assert snapshot(folder) == {name.removeprefix("events/"): b for name, b in before.items() if "events/" in name}


ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c,", 'd"', "é\n", "", None]), st.text(max_size=6)), max_size=12)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, gone=st.sampled_from(["a", "c,", 'd"', "é\n"]), packed=st.sampled_from(["", ".gz", ".bz2"]))
def test_csv_is_filtered_as_a_model_filters_it(tmp_path_factory, rows, gone, packed):
    """Values with quotes, delimiters and line feeds; each other record keeps its bytes."""
    root = tmp_path_factory.mktemp("csv") / "d"
    root.mkdir()
    spelt = lambda value: '"' + value.replace('"', '""') + '"' if value is not None else ""  # noqa: E731
    texts = [f"{spelt(user)},{spelt(text.replace(chr(13), ''))}\n" for user, text in rows]
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[packed]
    unpack = {"": bytes, ".gz": gzip.decompress, ".bz2": bz2.decompress}[packed]
    (root / f"f.csv{packed}").write_bytes(pack(("user,text\n" + "".join(texts)).encode("utf-8", "replace")))
    expected = [text for text, (user, _) in zip(texts, rows, strict=True) if user != gone]
    overwrite_files(asked(gone), str(root), key="user", form=Csv(multiline=True), most=1.0)
    found = unpack((root / f"f.csv{packed}").read_bytes())
    assert found == ("user,text\n" + "".join(expected)).encode("utf-8", "replace")


def test_columns_of_parquet_and_of_csv_without_a_header(tmp_path):
    """Numbers and texts; row groups, order and NULL stay, and the footers of all files beside go."""
    root = tmp_path / "p"
    root.mkdir()
    rows = pa.table({"user": pa.array([1, None, 7, 7, 3], pa.int64()), "x": [["a"], None, ["b"], [], ["c"]]})
    pq.write_table(rows, root / "f.parquet", row_group_size=2, compression="zstd")
    pq.write_table(rows.slice(0, 1), root / "g.parquet")
    (root / "_metadata").write_bytes(b"PAR1")
    result = overwrite_files(asked("7"), str(root), key="user", form=Parquet(), most=1.0)
    assert result.figures["records_removed"] == 2
    assert pq.read_table(root / "f.parquet").to_pylist() == rows.take([0, 1, 4]).to_pylist()
    assert sorted(path.name for path in root.iterdir()) == ["f.parquet", "g.parquet"]
    assert pq.ParquetFile(root / "f.parquet").metadata.row_group(0).column(0).compression == "ZSTD"
    with pytest.raises(ContractError, match=r"has no column who: nothing was removed"):
        overwrite_files(asked("7"), str(root), key="who", form=Parquet())
    other = tmp_path / "c"
    other.mkdir()
    (other / "f.csv").write_text("# kept\n1;a\n7;b\n\n3;c\ntotal\n")
    form = Csv(header=False, delimiter=";", skip_first=1, skip_last=1)
    overwrite_files(asked("7"), str(other), key="column_1", form=form, most=1.0)
    assert (other / "f.csv").read_text() == "# kept\n1;a\n\n3;c\ntotal\n"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: (root / "x.json.gz").write_bytes(b"\x1f\x8b\x08broken"), "damaged|holds"),
        (lambda root: (root / "x.json.xz").write_bytes(b"\xfd7zXZ\x00"), "which is not read"),
        (lambda root: (root / "x.json").symlink_to(root / "c.json"), "no file"),
    ],
)
def test_a_folder_that_cannot_be_searched_whole_stays(folder, spoil, said):
    """A file that nobody reads may hold the person: nothing is called removed."""
    spoil(folder)
    before = snapshot(folder)
    with pytest.raises(ContractError, match=said):
        overwrite_files(asked(ID), str(folder), key="user", most=1.0)
    assert snapshot(folder) == before


def test_a_link_a_file_and_a_bucket_are_no_folder(folder, tmp_path):
    """Each is refused with the reason."""
    (tmp_path / "link").symlink_to(folder)
    for place in (tmp_path / "link", folder / "c.json", tmp_path / "none", "s3://lake/events"):
        with pytest.raises((ConfigError, Conflict), match="folder"):
            overwrite_files(asked(ID), str(place), key="user")


DIES = """
import os, signal, sys
from dedp_assets.patterns.delta import LocalStore
from dedp_assets.patterns.security import _removal_files as filtered_files
from dedp_assets.patterns.security.in_place_overwriter import Removal, overwrite_files
folder, point, id = sys.argv[1:]
moves, moved, filters = [], LocalStore.move, filtered_files._filter_lines
def move(*arguments):
    if point == f"before move {len(moves)}":
        os.kill(os.getpid(), signal.SIGKILL)
    moves.append(moved(*arguments))
def filter_lines(*arguments):
    done = filters(*arguments)
    if point == "staging":
        os.kill(os.getpid(), signal.SIGKILL)
    return done
LocalStore.move, filtered_files._filter_lines = move, filter_lines
overwrite_files([Removal(request="R-1", id=id)], folder, key="user", most=1.0)
"""


@pytest.mark.parametrize("point", ["staging", "before move 0", "before move 1", "before move 2"])
def test_killed_the_folder_is_whole_or_completed_by_the_next_call(folder, point):
    """Acceptance 2: a real SIGKILL; before the exchange all is as before, within it the next call completes it."""
    before, copy = snapshot(folder), folder.parent / "copy"
    shutil.copytree(folder, copy)
    died = subprocess.run([sys.executable, "-c", DIES, str(folder), point, ID], cwd=CHECKOUT, check=False)
    assert died.returncode == -9
    if point == "before move 2":
        assert not folder.exists()
    else:
        assert snapshot(folder) == before
    result = overwrite_files(asked(ID), str(folder), key="user", most=1.0)
    assert result.figures["requests"]["R-1"] == ("nothing found" if point == "before move 2" else "removed 3 rows")
    overwrite_files(asked(ID), str(copy), key="user", most=1.0)
    assert {n: _text(n, b) for n, b in snapshot(folder).items()} == {n: _text(n, b) for n, b in snapshot(copy).items()}
    assert hits(folder.parent) == []
    assert not (folder.parent / ".events.content").exists()


def _text(name, content):
    return gzip.decompress(content) if name.endswith(".gz") else content


@pytest.mark.parametrize("moment", [0, 1, 2])
def test_a_file_that_arrives_meanwhile_is_not_lost(folder, monkeypatch, moment):
    """Acceptance 7: before the old content moves away, after, and before the new one moves in: another attempt."""
    moved, moves = LocalStore.move, itertools.count()

    def move(*arguments):
        if next(moves) == moment:
            folder.mkdir(exist_ok=True)
            (folder / "late.json").write_text(line(ID, 90) + line("late", 91))
        moved(*arguments)

    monkeypatch.setattr(LocalStore, "move", move)
    overwrite_files(asked(ID), str(folder), key="user", most=1.0)
    assert (folder / "late.json").read_text() == line("late", 91)
    assert hits(folder.parent) == []
    assert len(snapshot(folder)) == 5


def test_nested_names_and_numbers_are_ids(tmp_path):
    """A field of a field, a name with a dot, whole numbers as JSON spells them; a truth is no id."""
    root = tmp_path / "n"
    root.mkdir()
    lines = [
        '{"user": {"id": 7}}',
        '{"user.id": "7"}',
        '{"user": {"id": 7.0}}',
        '{"user": {"id": true}}',
        '{"user": 7}',
    ]
    (root / "f.json").write_text("\n".join(lines))
    result = overwrite_files(asked("7", "True"), str(root), key="user.id", form=JsonLines(), most=1.0)
    assert result.figures["requests"] == {"R-1": "removed 3 rows", "R-2": "nothing found"}
    assert (root / "f.json").read_text() == "\n".join(lines[3:])
    assert [path.name for path in root.iterdir()] == ["f.json"]
