"""Sensors over declared tables. Each looks, lets a pattern decide, and requests runs; none starts a JVM."""
