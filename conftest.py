"""Fixtures for the tests and for the examples in docstrings."""

pytest_plugins = ["tests.running", "tests.timing"]
