"""Profiles of tables: rows, rules, series and drift."""
