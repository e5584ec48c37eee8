"""Fixtures for the tests and for the examples in docstrings."""

pytest_plugins = ["tests.fixtures", "tests.examples"]
