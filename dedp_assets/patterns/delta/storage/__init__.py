"""Stores: the files of a table at any location, and the writer's lock."""
