"""Sensors over declared tables: each polls, plans by a pattern and requests runs, without a JVM."""
