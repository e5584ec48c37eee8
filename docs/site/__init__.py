"""The site of the documentation: plain Markdown pages, which mkdocs-material and Zensical both build.

``python -m docs.site`` (``make docs``) writes the pages below ``.dedp/docs`` and builds the site from there: the pages
of ``docs`` as they are, and pages that are made of what the code says of itself: patterns with their examples and
tests, decision trees, promises, benchmarks.
"""
