"""``dedp adopt``: code that states what the log of a table says, and a folder that nobody touched."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.cli import main
from dedp_assets.commands.adopt import as_python, in_file
from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.delta import Table, adoption_of
from tests.helpers import field_of, write_protocol


def nobody():
    pytest.fail("Spark was started")


def declared_by(code: str) -> tuple[TableSpec, str]:
    """The declaration and the location that printed code states; it is nothing but an import and two names."""
    kinds = [type(node) for node in ast.parse(code).body]
    assert kinds == [ast.ImportFrom, ast.Assign, ast.Assign]
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 - what a reader of it would do
    (spec,) = [each for each in names.values() if isinstance(each, TableSpec)]
    return spec, names["LOCATION"]


@pytest.fixture
def adopt(capsys):
    """``adopt(place, *options)``: exit code, output and errors of the command."""

    def run(*arguments):
        code = main(["adopt", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def kept(folder):
    """Every file and folder with its bytes and times."""
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in (folder, *folder.rglob("*"))
    }


# --- any table --------------------------------------------------------------------------------------------------------

ODD = "`'\"\\.;=,{}()#%$<>:-\n\r\t\x00\x85\u2028é😀ß"
TEXTS = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=12)
WORDS = TEXTS.filter(lambda text: text and not text.lower().startswith("__dedp_") and not re.search(r"\0|\$\{", text))
SCALARS = st.sampled_from(
    re.split(
        r"\s+",
        "boolean byte short integer long float double string binary date timestamp timestamp_ntz variant void "
        "decimal(9,2) decimal(38,0)",
    )
)


def structs(inner):
    fields = st.lists(
        st.builds(
            lambda n, k, null, text: field_of(n, k, nullable=null, comment=text), WORDS, inner, st.booleans(), TEXTS
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda each: each["name"].lower(),
    )
    return fields.map(lambda found: {"type": "struct", "fields": found})


KINDS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(
            lambda kind, null: {"type": "array", "elementType": kind, "containsNull": null}, inner, st.booleans()
        ),
        st.builds(
            lambda key, kind, null: {"type": "map", "keyType": key, "valueType": kind, "valueContainsNull": null},
            SCALARS,
            inner,
            st.booleans(),
        ),
        structs(inner),
    ),
    max_leaves=5,
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "comment": TEXTS,
        "CURRENT_DEFAULT": TEXTS,
        "delta.generationExpression": TEXTS,
        "delta.invariants": TEXTS,
        "__COLLATIONS": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "delta.identity.start": st.integers(),
        "team's key": TEXTS,
    },
)
SIZED = st.sampled_from(["", "", "char(3)", "varchar(10)", "array<varchar(2)>", "struct<A:char(2)>"])
PARTITIONS = st.sampled_from(
    ["string", "date", "timestamp", "timestamp_ntz", "boolean", "byte", "short", "integer", "long"]
)
DECLARED = st.fixed_dictionaries(
    {},
    optional={
        "columns": st.fixed_dictionaries(
            {
                "first": st.sampled_from(
                    [{"classification": "personal", "purpose": ["billing"]}, {"replica": "pseudonym"}]
                )
            }
        ),
        "executed_by": st.just("day of the run"),
        "key": st.just(["first"]),
    },
)


WRITERS = st.sampled_from([[], ["appendOnly", "invariants"], ["rowTracking"], ["invented\n"], ["dedp.closed"]])
OF_TYPES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}


def condition(text):
    """A condition with any text as a literal: Delta takes no constraint that is no SQL."""
    return f"first IS NULL OR {quoted(text)} <> ''"


@st.composite
def logs(draw):
    """Schema and metadata of a table of whatever tool, as they stand in its log."""
    names = draw(st.lists(WORDS.filter(lambda n: n.lower() != "first"), min_size=1, max_size=5, unique_by=str.lower))
    fields = [field_of("first", draw(SCALARS), comment=draw(TEXTS))]
    for name in names:
        sized = draw(SIZED)
        kind = "string" if "char" in sized[:7] else draw(KINDS)
        stated = draw(METADATA)
        if '"variant"' in json.dumps(kind):
            stated.pop("CURRENT_DEFAULT", None)  # by the protocol it can only be NULL
        fields.append(field_of(name, kind, sized, nullable=draw(st.booleans()), **stated))
    by = [field_of(f"by {n}", draw(PARTITIONS)) for n in range(draw(st.integers(0, 2)))]
    checks = draw(st.dictionaries(WORDS, TEXTS, max_size=2).filter(lambda d: len({k.lower() for k in d}) == len(d)))
    conditions = {f"delta.constraints.{name}": condition(text) for name, text in checks.items()}
    ours = draw(DECLARED)
    times = [each["name"] for each in [*fields, *by] if each["type"] in ("date", "timestamp", "timestamp_ntz")]
    if times and draw(st.booleans()):
        ours["event_time"] = draw(st.sampled_from(times))
    stored = {"dedp.declaration": json.dumps(ours, sort_keys=True)} if ours else {}
    properties = draw(st.dictionaries(WORDS.filter(lambda key: not key.startswith("delta.")), TEXTS, max_size=3))
    more = draw(st.sampled_from([{}, {"delta.appendOnly": "true"}, {"delta.checkpointInterval": "7"}]))
    typed = json.dumps([*fields, *by])
    readers = {feature for kind, feature in OF_TYPES.items() if f'"{kind}"' in typed}
    return {
        "fields": [*fields, *by],
        "partition_by": [each["name"] for each in by],
        "configuration": {**properties, **conditions, **more, **stored},
        "description": draw(TEXTS),
        "readers": sorted(readers),
        "writers": sorted({*readers, *draw(WRITERS)}),
    }


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(log=logs(), name=st.sampled_from(["gold/x", 's/it\'s "q"', "x", "9 days", "s/location", "s/None", "a/ü\n"]))
def test_the_printed_code_states_what_the_log_says(log, name):
    """Any types at any depth, names, comments and properties; nothing of the table's words becomes code."""
    with tempfile.TemporaryDirectory() as folder:
        write_protocol(Path(folder), **log)
        spec, location = declared_by(as_python(adoption_of(folder, name=name)))
        assert location == str(Path(folder).resolve())
        assert spec == Table.at(folder, nobody, name=name).spec


def test_a_table_of_delta_rs_is_printed_as_a_person_would_write_it(tmp_path, adopt):
    """The whole page: the declaration, how it is written, what it leaves out, what to fill in, a first write."""
    place = tmp_path / "silver" / "orders"
    rows = pa.table({"order_id": pa.array([1, 2], pa.int64()), "day": pa.array([date(2026, 1, 5)] * 2)})
    write_deltalake(place, rows, partition_by=["day"], description="One row per order.")
    DeltaTable(place).alter.add_constraint({"known": "order_id > 0"})
    code, out, err = adopt(place, "--name", "gold/orders")
    assert (code, err) == (0, "")
    assert (
        out
        == f'''\
# Declaration of 'gold/orders', read from {str(place)!r} at version 1; nothing was changed.
from dedp_assets.patterns import Column, TableSpec

LOCATION = "{place}"
ORDERS = TableSpec(
    "gold/orders",
    {{
        "order_id": Column("BIGINT"),
        "day": Column("DATE"),
    }},
    partition_by=("day",),
    checks={{
        "known": "order_id > 0",
    }},
    comment="One row per order.",
    adopted=True,
)

# How it is written:
# - audited rows are published by the log alone, without Spark's writer

# Not in the log; a declaration can say it:
# - key: the columns that tell its rows apart
# - event_time: the column with the time at which the event of a row happened
# - order: the column that says which of two changes of a row is newer (order_by of a merge)
# - classification: which columns are personal (Column(..., classification="personal"))
# - owner, readers and greatest age (About(owner=..., used_by=..., fresh_hours=...) of a table of the graph)

# A first audited write, of rows that you have and with a Spark session:
# from dedp_assets.patterns import Audit, Table, overwrite_partition
# table = Table(ORDERS, LOCATION, spark)
# some = Audit(name="some_rows", of="written", fail_below=1)
# overwrite_partition(rows, table.target("first-run", partition={{"day": "2026-01-05"}}, audits=[some]))
'''
    )


def test_nothing_is_changed(tmp_path, adopt):
    """Bytes and times of every file and folder are as before, of tables and of what is none."""
    write_deltalake(tmp_path / "t", pa.table({"n": [1, 2], "day": ["mon", "tue"]}), partition_by=["day"])
    DeltaTable(tmp_path / "t").create_checkpoint()
    write_protocol(tmp_path / "c", [field_of("n", "long")], readers=["catalogManaged"], writers=["catalogManaged"])
    (tmp_path / "p").mkdir()
    pq.write_table(pa.table({"n": [1]}), tmp_path / "p" / "a.parquet")
    before = kept(tmp_path)
    assert [adopt(tmp_path / place)[0] for place in ("t", "c", "p", "none")] == [0, 3, 2, 2]
    assert kept(tmp_path) == before


@pytest.mark.parametrize(
    ("made", "named", "words"),
    [
        ("none", "none", "holds no table: declare one (TableSpec), or name another location"),
        ("empty", "empty", "holds no table: declare one (TableSpec), or name another location"),
        ("file", "file", "is a file, and a table is a folder: name the folder that holds its _delta_log"),
        ("parquet", "parquet", "holds Parquet files and no Delta log: make it a table where it lies"),
        ("deep", "deep", "holds Parquet files and no Delta log: make it a table where it lies"),
        ("other", "other", "holds 'notes.txt' and no Delta log, so no table: name another location"),
        ("bare", "bare", "has a _delta_log without a commit: the table was never made, or its log is lost"),
        ("table", "table/day=mon", "lies inside of the table"),
        ("table", "table/_delta_log", "lies inside of the table"),
        ("catalog", "catalog", "is managed by a catalog (catalogManaged), which alone knows its newest version"),
        ("shapes", "shapes", "asks its readers to know geospatial, invented, which the library does not"),
        ("newer", "newer", "asks its readers to know version 4 of the protocol, which the library does not"),
        ("damaged", "damaged", "version 0 of its log is damaged"),
        ("decimals", "decimals", "cannot be partitioned by d: not every DECIMAL(9,2) has one spelling"),
        ("none", "gs://bucket/t", "is an address of something else than a folder of this machine"),
    ],
)
def test_what_is_no_table_that_can_be_read_is_refused_in_a_sentence(tmp_path, adopt, made, named, words):
    """On one line that names the place or the table, with nothing printed; a wrong place has a code of its own."""
    place = tmp_path / made
    number, decimal = field_of("n", "long"), field_of("d", "decimal(9,2)")
    makers = {
        "none": lambda: None,
        "empty": place.mkdir,
        "file": lambda: place.write_text("x"),
        "parquet": lambda: [place.mkdir(), pq.write_table(pa.table({"n": [1]}), place / "a.parquet")],
        "deep": lambda: [(place / "d=1").mkdir(parents=True), (place / "d=1" / "a.parquet").write_bytes(b"PAR1")],
        "other": lambda: [place.mkdir(), (place / "notes.txt").write_text("x")],
        "bare": lambda: (place / "_delta_log").mkdir(parents=True),
        "table": lambda: write_deltalake(place, pa.table({"n": [1], "day": ["mon"]}), partition_by=["day"]),
        "catalog": lambda: write_protocol(place, [number], readers=["catalogManaged"], writers=["catalogManaged"]),
        "shapes": lambda: write_protocol(
            place, [number], readers=["invented", "geospatial"], writers=["invented", "geospatial"]
        ),
        "newer": lambda: write_protocol(place, [number], version=(4, 7)),
        "damaged": lambda: [
            write_protocol(place, [number]),
            (place / "_delta_log" / f"{0:020d}.json").write_text('{"protocol": '),
        ],
        "decimals": lambda: write_protocol(place, [number, decimal], partition_by=["d"]),
    }
    makers[made]()
    code, out, err = adopt(named if "://" in named else tmp_path / named)
    assert (code, out) == (3 if made in ("catalog", "shapes", "newer", "damaged") else 2, "")
    (line,) = err.splitlines()
    assert line.startswith("dedp adopt: ")
    assert words in line
    assert f"{tmp_path.name}/{made}" in line or named in line


def test_a_terminal_without_a_letter_gets_its_escape(tmp_path, monkeypatch, capsys):
    """The text of the code is the same."""
    write_protocol(tmp_path / "t", [field_of("größe 😀", "long", comment="in €")])

    class Latin:
        encoding = "ascii"

        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text.encode("ascii").decode()

        def flush(self):
            pass

    monkeypatch.setattr("sys.stdout", found := Latin())
    assert main(["adopt", str(tmp_path / "t")]) == 0
    monkeypatch.undo()
    assert declared_by(found.text)[0] == Table.at(tmp_path / "t", nobody).spec


@pytest.mark.parametrize(
    ("made", "call"),
    [
        ({}, '# load_full(rows, table.target("first-run", audits=[some]))'),
        (
            {"configuration": {"delta.appendOnly": "true"}},
            '# table.append(rows, provenance=table.target("first-run", sequence=1).run, audits=[some])',
        ),
        (
            {"partition_by": ["a\nb"]},
            '# overwrite_partition(rows, table.target("first-run", partition={"a\\nb": "..."}, audits=[some]))',
        ),
        ({"writers": ["invented"]}, ""),
    ],
)
def test_the_first_write_is_one_that_the_table_takes(tmp_path, adopt, made, call):
    """By what it is partitioned by, and by whether rows of it are replaced; none if no rows can be written."""
    write_protocol(tmp_path / "t", [field_of("n", "long"), field_of("a\nb", "string")], **made)
    out = adopt(tmp_path / "t")[1]
    assert call in out.splitlines() if call else "first audited write" not in out


@pytest.mark.spark
def test_the_first_write_works_as_it_is_printed(tmp_path, adopt, spark):
    """Two lines more than the declaration, and the table's properties are as its owner set them."""
    write_deltalake(tmp_path / "t", pa.table({"n": [1, 2], "day": ["mon", "tue"]}), partition_by=["day"])
    DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.checkpointInterval": "9"})
    before = Table.at(tmp_path / "t", spark).ledger.state().properties
    code, _, example = adopt(tmp_path / "t")[1].partition("# A first audited write")
    lines = [line.removeprefix("# ") for line in example.splitlines()[1:]]
    rows = spark.sql("SELECT 7L AS n, 'tue' AS day")
    exec("\n".join([code, *lines]), {"spark": spark, "rows": rows})  # noqa: S102 - what a reader of it would do
    table = Table.at(tmp_path / "t", spark)
    assert sorted(table.read().select("n", "day").collect()) == [(1, "mon"), (7, "tue")]
    assert table.ledger.commit(table.ledger.version()).record.verdict == "passed"
    assert table.ledger.state().properties == before


# --- as a file --------------------------------------------------------------------------------------------------------


def declared_in(text: str) -> TableSpec:
    """The declaration of a printed document, by the checks of files."""
    (found,), faults = drafts_of(text, "defs.yaml")
    table, definitions, more = completed(found, {})
    assert [*faults, *more] == []
    assert definitions is not None
    return table.spec


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(log=logs(), name=st.sampled_from(["gold/x", "x", "s/location", "s/None", "gold/no"]), ascii_only=st.booleans())
def test_the_printed_document_states_what_the_log_says(log, name, ascii_only):
    """Any types at any depth, names, comments and properties; no word of the table becomes YAML."""
    with tempfile.TemporaryDirectory() as folder:
        write_protocol(Path(folder), **log)
        text = in_file(adoption_of(folder, name=name), "ascii" if ascii_only else "utf-8")
        assert declared_in(text) == Table.at(folder, nobody, name=name).spec


def test_a_table_of_delta_rs_is_printed_as_a_document(tmp_path, adopt):
    """The whole file, as a person would write it; the comments of the form in Python stand below."""
    place = tmp_path / "silver" / "orders"
    rows = pa.table({"order_id": pa.array([1, 2], pa.int64()), "day": pa.array([date(2026, 1, 5)] * 2)})
    write_deltalake(place, rows, partition_by=["day"], description="One row per order.")
    DeltaTable(place).alter.add_constraint({"known": "order_id > 0"})
    before = kept(tmp_path)
    code, out, err = adopt(place, "--name", "gold/orders", "--format", "yaml")
    assert (code, err) == (0, "")
    assert kept(tmp_path) == before
    document, _, comments = out.partition("\n# Read from version 1; nothing was changed:\n")
    assert document == (
        """\
# yaml-language-server: $schema=../../../../.dedp/schema.json
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/orders
    columns:
      order_id: {type: BIGINT}
      day: {type: DATE}
    partition_by: [day]
    checks:
      known: order_id > 0
    comment: One row per order.
    adopted: true
  reads:
    inputs: dedp_assets.components.adopted:no_inputs
  runs:
    partitions:
      daily: {}
    when:
      on_request: {}
  about:
    owner: team:data
  code_version: '1'
  steps:
  - sql: SELECT NULL AS `order_id`, NULL AS `day` WHERE raise_error('write the query of gold/orders in its steps')
  - idempotency.data_overwrite: {}
"""
    )
    assert all(line.startswith("#") or not line for line in comments.splitlines())
    assert "# - key: the columns that tell its rows apart" in comments
    assert str(place) in comments


def test_a_name_that_is_no_asset_is_refused_in_a_sentence(tmp_path, adopt):
    """With the option that names another."""
    write_protocol(tmp_path / "t", [field_of("n", "long")])
    code, out, err = adopt(tmp_path / "t", "--name", "s/it's", "--format", "yaml")
    assert (code, out) == (2, "")
    assert "cannot be declared in a file as it is" in err
    assert adopt(tmp_path / "t", "--name", "s/its", "--format", "yaml")[0] == 0
