"""Origins of rows: commits, runs, files and decisions of people, read from logs without Spark."""
