"""Surroundings of a run: retries, disks, opened tables, demands and digests of declarations."""
