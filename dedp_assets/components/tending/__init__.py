"""Maintenance in a document: actions on existing tables."""
