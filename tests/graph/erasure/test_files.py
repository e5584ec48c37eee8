"""Ids of persons in files beside the tables."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.graph.erasure.files import files_below, redact, redact_files, redact_store
from dedp_assets.graph.erasure.spellings import Spellings
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at
from dedp_assets.patterns.delta import store_at
from dedp_assets.patterns.governance.purpose_based_access_control import AccessDecision, Grants
from tests.canaries import Canary, Search, texts_in

ADA, BOB = "ada.lovelace@example.com", "bob@elsewhere.org"
GONE = Spellings([ADA], {"id": ["7"]})


def hits(folder):
    """The places of a folder that hold the id."""
    search = Search([Canary("ada", ADA.encode())])
    return [name for name, content in texts_in(folder) if search.found(content)]


def test_a_text_loses_the_id_and_keeps_all_else(tmp_path):
    """Also packed, with its rights."""
    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    plain.write_text(f'{{"of": "{ADA}", "by": "{BOB}"}}')
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.chmod(0o640)
    found = redact_files(files_below(tmp_path), GONE)
    assert (found.done, found.places, found.left) == (2, 2, ())
    assert json.loads(plain.read_text()) == {"of": "erased".ljust(len(ADA), "-"), "by": BOB}
    assert json.loads(gzip.decompress(packed.read_bytes())) == {"of": "erased", "by": BOB}
    assert plain.stat().st_mode & 0o777 == 0o640
    assert hits(tmp_path) == []


def test_what_a_process_appends_meanwhile_is_kept(tmp_path):
    """A log is open for as long as its process lives: its file stays the same one."""
    file = tmp_path / "server.log"
    with file.open("a") as log:
        log.write(f"{ADA} came\n")
        log.flush()
        assert redact(file, GONE) == 1
        log.write("and left\n")
    assert file.read_text() == "erased".ljust(len(ADA), "-") + " came\nand left\n"


def test_a_file_without_the_id_is_not_written(tmp_path):
    """Its time says when it was made."""
    file = tmp_path / "a.txt"
    file.write_text(BOB)
    before = file.stat()
    assert redact(file, GONE) == 0
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_records_in_landed_files_go_as_a_whole(tmp_path):
    """By the id anywhere, or by a short one in its field; other lines stay byte for byte."""
    file = tmp_path / "visits.jsonl"
    lines = [f'{{"id": 1, "m": "{ADA}"}}', '{"id": 7,  "m": null}', '{"id": 2,   "m": "x"}', "not JSON"]
    file.write_text("\n".join(lines) + "\n")
    found = redact_store(store_at(tmp_path), GONE, by_line=True)
    assert found.places == 2
    assert file.read_text() == "\n".join(lines[2:]) + "\n"


def test_records_of_csv_go_as_a_whole(tmp_path):
    """By a short id in its field, or by the id anywhere; a record may have several lines."""
    records = ["id;note;n\r\n", "7;x;1\r\n", '2;"a\nb; c";7\r\n', f'3;"to\n{ADA}";1\r\n', "4;Gr\xfc\x85\xdfe;7"]
    (tmp_path / "v.csv").write_bytes("".join(records).encode("latin-1"))
    (tmp_path / "v.csv.gz").write_bytes(gzip.compress("".join(records).encode("latin-1")))
    assert redact_store(store_at(tmp_path), GONE, by_line=True).places == 4
    left = "".join([records[0], records[2], records[4]]).encode("latin-1")
    assert (tmp_path / "v.csv").read_bytes() == gzip.decompress((tmp_path / "v.csv.gz").read_bytes()) == left


def test_a_manifest_states_the_size_of_a_changed_file(tmp_path):
    """Also after a crash between the two; another delivery's manifest stays."""
    folder = tmp_path / "day"
    folder.mkdir()
    (folder / "a.jsonl").write_text(f'{{"id": 1, "m": "{ADA}"}}\n{{"id": 2}}\n')
    (folder / "b.jsonl").write_text('{"id": 3}\n')
    sizes = {name: (folder / name).stat().st_size for name in ("a.jsonl", "b.jsonl")}
    (folder / "_SUCCESS").write_text(json.dumps({"files": sizes, "by": "them"}))
    store, died = store_at(tmp_path), []

    class Dying(type(store)):
        def put(self, path, content):
            if path == "day/a.jsonl" and not died:
                died.append(path)
                raise SystemExit
            super().put(path, content)

    with pytest.raises(SystemExit):
        redact_store(Dying(str(tmp_path)), GONE, by_line=True)
    redact_store(store, GONE, by_line=True)
    assert died
    now = {name: (folder / name).stat().st_size for name in sizes}
    assert json.loads((folder / "_SUCCESS").read_text()) == {"files": now, "by": "them"}
    assert now["a.jsonl"] < sizes["a.jsonl"]
    assert delivery_at(folder).refusal() == ""


def test_rows_of_parquet_go_as_a_whole(tmp_path):
    """A landed file keeps its columns; beside the landing zone it is reported."""
    for name in ("landing", "home"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"id": [1, 7, 2], "m": [ADA, None, "x"]}), tmp_path / name / "v.parquet")
    assert redact_store(store_at(tmp_path / "landing"), GONE, by_line=True).places == 2
    assert pq.read_table(tmp_path / "landing" / "v.parquet").to_pydict() == {"id": [2], "m": ["x"]}
    assert [path.name for path in redact_files(files_below(tmp_path / "home"), GONE).left] == ["v.parquet"]


def test_a_database_is_redacted_and_compacted(tmp_path):
    """In every text and blob, also of strange names, and no page keeps what was there."""
    file = tmp_path / "runs.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute('CREATE TABLE "a ""b" (id INTEGER PRIMARY KEY, "an event" TEXT, body BLOB, n INT)')
        rows = [(n, f"{ADA if n % 2 else BOB} {n}", (ADA if n % 2 else BOB).encode(), n) for n in range(500)]
        database.executemany('INSERT INTO "a ""b" VALUES (?, ?, ?, ?)', rows)
        database.commit()
    assert redact(file, GONE) == 500
    with closing(sqlite3.connect(file)) as database:
        stored = database.execute('SELECT * FROM "a ""b" ORDER BY id').fetchall()
    assert stored[1] == (1, "erased 1", b"erased", 1)
    assert stored[2] == rows[2]
    assert hits(tmp_path) == []


def test_an_audit_whose_rows_its_file_keeps_is_redacted(tmp_path):
    """And its file keeps them again; the rows stay, without the id."""
    at = datetime(2026, 1, 5, tzinfo=timezone.utc)
    grants = Grants(tmp_path / "grants.db")
    common = {"at": at.isoformat(), "event": "open", "outcome": "denied", "purpose": "x", "datasets": [], "ticket": ""}
    common |= {"case": "", "export": False, "reason": "no policy", "justification": ""}
    for user in (ADA, BOB):
        grants.write(AccessDecision(user=user, **common))
    assert redact(grants.file, GONE) == 1
    assert [row.user for row in grants.audit()] == ["erased", BOB]
    assert hits(tmp_path) == []
    with closing(sqlite3.connect(grants.file)) as database, pytest.raises(sqlite3.IntegrityError, match="rows stay"):
        database.execute("DELETE FROM audit")


def test_a_database_that_refuses_the_change_is_left_as_it_was(tmp_path):
    """Two keys would be one: the file is named, and other files are redacted all the same."""
    file = tmp_path / "keys.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE t (k TEXT PRIMARY KEY)")
        database.executemany("INSERT INTO t VALUES (?)", [(ADA,), (f"{ADA.encode().hex()}",)])
        database.commit()
    (tmp_path / "other.txt").write_text(ADA)
    found = redact_files(files_below(tmp_path), GONE)
    assert (found.done, found.left) == (1, (file,))
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM t WHERE k != 'erased'").fetchone() == (2,)


def test_tables_links_and_named_folders_are_left(tmp_path):
    """Tables have their own erasure; a link leads elsewhere."""
    for name in ("t/_delta_log", "cache", "x"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "f.txt").write_text(ADA)
    (tmp_path / "t" / "data.txt").write_text(ADA)
    (tmp_path / "x" / "link").symlink_to(tmp_path / "cache")
    files = files_below(tmp_path, without=[tmp_path / "cache"])
    assert [str(file.relative_to(tmp_path)) for file in files] == ["x/f.txt"]
    assert redact_store(store_at(tmp_path), GONE).done == 2
    assert (tmp_path / "t" / "data.txt").read_text() == ADA
