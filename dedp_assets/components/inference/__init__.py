"""Inference of columns from files, topics and database tables."""
