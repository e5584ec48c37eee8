"""Stores: the files of a table, wherever they lie, and the writers' lock."""
