"""Loading of a project's folder: one bad file is one bad table, and Dagster shows it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from dedp_assets.components.loading import load
from dedp_assets.components.table import TableComponent
from dedp_assets.components.yaml.model import Options
from dedp_assets.graph.declare import Inputs, Request, declared
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.location import lake_resources

TABLE = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: {name}
    columns:
      id: {{type: STRING, comment: identity}}
      day: {{type: DATE, comment: UTC day}}
    partition_by: [day]
  reads: {{{reads}}}
  runs: {{partitions: {{daily: {{start: 2026-01-05}}}}{when}}}
  about: {{owner: "team:x"}}
  code_version: "1"
  steps:
    - {step}
"""
MODULE = '''
"""A table in Python, and one of its own."""
import dagster as dg
from dedp_assets.graph.declare import About, Inputs, OnRequest, Reads, Request, Runs, Target, lake_table
from dedp_assets.graph.declare.partitions import daily
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition

SPEC = TableSpec("bronze/events", {"id": Column("STRING"), "day": Column("DATE")}, partition_by=("day",))


def find(request: Request) -> Inputs:
    """Find nothing."""
    return Inputs({})


@lake_table(
    SPEC, reads=Reads(inputs=find), runs=Runs(daily(), OnRequest()), about=About("team:x"),
    patterns=[overwrite_partition], code_version="1",
)
def events(into: Target) -> WriteResult:
    """Write nothing."""


@dg.asset
def plain() -> None:
    """An asset of Dagster alone."""
'''
OVERWRITE = "idempotency.data_overwrite: {allow_empty: true}"


def table(name, reads="tables: {bronze/events: {same: {column: day}}}", step=OVERWRITE, when=""):
    """The text of a declaration."""
    return TABLE.format(name=name, reads=reads, step=step, when=when)


@pytest.fixture
def project(tmp_path, monkeypatch, request):
    """Make a project of files below its folder of definitions, and load it."""
    package = f"project_{abs(hash(request.node.name))}"

    def make(files):
        defs = tmp_path / package / "defs"
        for name, text in {"__init__.py": "", "../__init__.py": "", "events.py": MODULE, **files}.items():
            file = defs / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (tmp_path / "pyproject.toml").write_text(
            f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{package}"\n'
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        return tmp_path

    yield make
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]


def resolved(definitions):
    """The specs of all assets, with the resources that they need."""
    return list(dg.Definitions.merge(definitions, dg.Definitions(resources=lake_resources())).resolve_all_asset_specs())


def keys(definitions):
    """The assets by key, with their descriptions."""
    specs = resolved(definitions)
    return {spec.key.to_user_string(): spec.description or "" for spec in specs}


GOOD = {
    "silver/one/defs.yaml": table("silver/one"),
    "silver/two/defs.yaml": table("silver/two", reads="tables: {silver/one: {same: {column: day}}}"),
}
BAD = {
    "a misspelt option": (table("silver/bad").replace("owner:", "ownr:"), "silver/bad", "defs.yaml:12:11: attri"),
    "an unknown type": ("type: dedp_assets.components.Tabel\nattributes: {}\n", "", "unknown type"),
    "a broken bracket": (table("silver/bad").replace("[day]", "[day"), "", "this is no YAML"),
    "a misspelt key": (table("silver/bad") + "atributes: {}\n", "", "unknown key atributes: did you mean attributes?"),
    "nothing": ("", "", "this file is empty"),
    "a second writer": (table("silver/one"), "", "silver/one has two writers: "),
    "a writer beside Python": (table("bronze/events", reads="tables: {silver/one: {same: {column: day}}}"), "",
                               "bronze/events has two writers: a table in Python is the other"),
    "an unknown upstream": (table("silver/bad", reads="tables: {silver/on: {same: {column: day}}}"), "silver/bad",
                            "unknown table silver/on: did you mean silver/one?"),
    "another component": ("type: dagster.DefinitionsComponent\nattributes: {pth: 1}\n", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_one_bad_file_of_three_leaves_the_other_tables(project, kind):
    """In Python and YAML, with a sentence about the bad one where a person looks."""
    text, name, message = BAD[kind]
    root = project({**GOOD, "silver/xbad/defs.yaml": text})
    loaded = load(root)
    found = keys(loaded.definitions)
    assert {"silver/one", "silver/two", "plain"} <= set(found)
    assert [each.spec.name for each in loaded.tables] == ["silver/one", "silver/two"]
    (refused,) = [key for key in found if key == name or key.startswith("refused/")]
    assert "This table is not loaded" in found[refused]
    assert message in found[refused].replace("\n", " ")


def test_faulty_files_of_one_name_are_assets_of_their_own(project):
    """Beside each other, and beside a sound table of the name: else nothing of the location would load."""
    faulty = table("silver/one").replace("columns:", "colums:")
    root = project({"silver/a/defs.yaml": faulty, "silver/b/defs.yaml": faulty, **GOOD})
    found = keys(load(root).definitions)
    assert {"silver/one", "silver/two"} <= set(found)
    assert len([key for key in found if key.startswith("refused/")]) == 2
    root = project({"silver/one/defs.yaml": faulty})
    assert len(load(root).faults) > 2


def test_a_refused_table_fails_with_the_sentence(project):
    """Whoever materializes it reads what is wrong."""
    root = project({**GOOD, "silver/xbad/defs.yaml": BAD["a misspelt option"][0]})
    (asset,) = [
        each
        for each in load(root).definitions.assets
        if isinstance(each, dg.AssetsDefinition) and each.keys == {dg.AssetKey(["silver", "bad"])}
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize([asset], instance=instance, raise_on_error=False)
    (failed,) = done.get_step_failure_events()
    assert "did you mean owner?" in failed.step_failure_data.error.to_string()


def test_a_good_project_loads_as_dagster_loads_it(project):
    """Tables in YAML read tables in Python and YAML; jobs, checks and schedules come with them."""
    when = ', when: {nightly: {cron: "0 2 * * *", lookback: 1}}'
    root = project({**GOOD, "silver/three/defs.yaml": table("silver/three", when=when)})
    loaded = load(root)
    assert not loaded.faults
    assert {each.spec.name for each in loaded.tables} == {"silver/one", "silver/two", "silver/three"}
    deps = {s.key.to_user_string(): [d.asset_key.to_user_string() for d in s.deps] for s in
            resolved(loaded.definitions)}  # fmt: skip
    assert deps["silver/two"] == ["silver/one"]
    assert [each.name for each in loaded.definitions.schedules] == ["silver_three_every_day"]
    alone = dg.load_from_defs_folder(path_within_project=root)
    assert set(keys(alone)) == set(keys(loaded.definitions))


def test_a_table_in_python_is_found_in_a_folder_without_an_init_file(project):
    """Dagster loads the module, so whoever asks for the project's tables has to know of it."""
    root = project({**GOOD, "events.py": "", "landed/raw/events.py": MODULE, "landed/raw/some-notes.py": "1 / 0"})
    loaded = load(root)
    assert not loaded.faults
    assert {"bronze/events", "silver/one"} <= set(keys(loaded.definitions))
    defs = importlib.import_module(f"{next(root.glob('project_*')).name}.defs")
    assert [each.spec.name for each in declared(defs)] == ["bronze/events"]


def test_documents_of_one_file_are_tables_of_their_own(project):
    """A fault of one leaves the others."""
    bad = table("silver/bad").replace("owner:", "ownr:")
    root = project({"silver/all/defs.yaml": "---".join([table("silver/one"), bad, table("silver/three")])})
    loaded = load(root)
    assert {each.spec.name for each in loaded.tables} == {"silver/one", "silver/three"}
    assert {"silver/one", "silver/three", "silver/bad"} <= set(keys(loaded.definitions))


def test_the_code_location_line_of_a_table_is_its_yaml(project):
    """And not the module that runs the steps."""
    loaded = load(project(GOOD))
    specs = {spec.key.to_user_string(): spec for spec in resolved(loaded.definitions)}
    (reference,) = specs["silver/one"].metadata["dagster/code_references"].code_references
    assert Path(reference.file_path).as_posix().endswith("silver/one/defs.yaml")


def test_the_components_import_without_spark():
    """As `dg` imports them in environments that have none; what needs Spark is imported when it is asked for."""
    text = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in ('pyspark', 'delta', 'deltalake'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import dedp_assets.components as found\n"
        "print(found.TableComponent.get_spec().description)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=CHECKOUT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("A table of the lake")


def test_a_component_without_a_file_is_a_table(tmp_path):
    """For a project without a folder of definitions: the same attributes, by Dagster's own call."""
    attributes = yaml.safe_load(table("silver/alone", reads="inputs: tests.components.test_loading:find"))["attributes"]
    attributes["steps"] = [{"python": "tests.components.test_loading:nothing"}, {"idempotency.data_overwrite": {}}]
    attributes["runs"] = {"when": {"on_request": {}}}
    attributes["runs"]["partitions"] = {"static": {"keys": ["a"]}}
    made = TableComponent.from_attributes_dict(attributes=attributes)
    assert made.declared.spec.name == "silver/alone"
    assert keys(dg.build_defs_for_component(made)).keys() == {"silver/alone"}


def find(request: Request) -> Inputs:
    """Find nothing."""
    return Inputs({})


def nothing():
    """Return nothing."""


LANDING = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/orders
  folder: orders
  format: {json_lines: {}}
  partitions: {daily: {start: 2026-01-05}}
  about: {owner: "team:x"}
"""


def test_a_landing_loads_as_its_tables(project):
    """With assets, a replay and checks; without its columns it is one asset that says which command writes them."""
    columns = "columns:\n  id: {type: STRING}\n"
    step = "sql: SELECT id, landed_on FROM {rows}\n    - idempotency.data_overwrite: {}"
    counts = table("gold/orders", reads="tables: {silver/orders: {same: {column: landed_on}}}", step=step)
    files = {"orders/defs.yaml": LANDING, "orders/columns.yaml": columns}
    root = project({**files, "gold/defs.yaml": counts.replace("day", "landed_on")})
    loaded = load(root)
    assert [str(fault) for fault in loaded.faults] == []
    assert {each.spec.name for each in loaded.tables} == {"bronze/orders", "silver/orders", "gold/orders"}
    whole = dg.Definitions.merge(loaded.definitions, dg.Definitions(resources=lake_resources()))
    names = {key.to_user_string() for key in whole.resolve_asset_graph().get_all_asset_keys()}
    assert {"silver/orders_dead_letter", "silver/orders_dead_letter_replay", "bronze/orders"} <= names
    assert whole.resolve_job_def("land_silver_orders")
    (written,) = root.rglob("columns.yaml")
    written.unlink()
    again = load(root)
    assert any("run `dedp infer" in fault.message for fault in again.faults)
    assert {each.spec.name for each in again.tables} == set()


def test_the_schemas_of_all_patterns_are_not_written_for_a_load(project, monkeypatch):
    """Dagster asks for them at each load of a location, and at each load of a run; `dg` and editors get them whole."""
    root, written = project(GOOD), []
    whole = TableComponent.get_model_cls().model_json_schema()
    monkeypatch.setattr(Options, "model_json_schema", lambda *_, **__: written.append("a schema") or {})
    assert not load(root).faults
    assert written == []
    monkeypatch.undo()
    assert TableComponent.get_model_cls().model_json_schema() == whole
    assert "steps" in whole["properties"]
