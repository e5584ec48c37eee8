"""Landings in a document: sources, loads, and the three tables of a landing."""
