"""Marks of functions in test files: what a contract tries of a thing stands beside the tests of the thing."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module

from dedp_assets.graph.resources.environments import CHECKOUT


@cache
def marked_with(name):
    """The functions that test files mark with the decorator ``name``: path of the file -> functions.

    A decorator of that name leaves an attribute of that name on what it marks.
    """
    found = {}
    for path in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        if re.search(rf"^@{name}\b", path.read_text(), re.MULTILINE):
            place = path.relative_to(CHECKOUT)
            held = vars(module := import_module(".".join(place.with_suffix("").parts))).values()
            own = [each for each in held if inspect.isfunction(each) and each.__module__ == module.__name__]
            found[place.as_posix()] = [each for each in own if hasattr(each, name)]
    return found
