"""Erasure of persons from a platform: tables, files, databases; cases and reports."""
