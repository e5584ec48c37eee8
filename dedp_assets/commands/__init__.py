"""Commands of ``dedp``: one module for each command, which the command line finds in this folder.

The docstring of a module is the manual of the command. The first line is the sentence in ``dedp --help``; further
paragraphs stand above the options in ``dedp COMMAND --help``. A paragraph that begins with ``Exit code 1: `` says what
that code means, and the last one, ``Examples:``, has a command line in each further line, which a test parses.

A command that reports has ``--json`` (``add_json``), and prints both forms by ``answer``. One that takes long counts by
``counted`` or ``counting``. Besides the docstring the command line asks for

- ``NEEDS``: the extra with the packages of the command; without it, the core is enough;
- ``arguments(parser)``: adds options and positions;
- ``run(settings, chosen)``: does it, and returns the exit code.

``BESIDE = True`` says that the command works in a home where a platform may run; ``computes(chosen)`` says whether it
then takes that platform's engine. A module with an underscore in front is no command.
"""
