"""Commands of ``dedp``: one module for each command, which the command line finds in this folder.

The first line of a module's docstring is its sentence in ``dedp --help``. Besides that the command line asks for

- ``NEEDS``: the extra with the packages of the command; without it, the core is enough;
- ``arguments(parser)``: adds options and positions;
- ``run(settings, chosen)``: does it, and returns the exit code.

``BESIDE = True`` says that the command works in a home where a platform may run; ``computes(chosen)`` says whether it
then takes that platform's engine. A module with an underscore in front is no command.
"""
