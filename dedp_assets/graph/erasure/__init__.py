"""Erasure of persons from a platform: tables, files beside the tables, databases of the home; cases and reports."""
