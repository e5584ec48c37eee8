"""Chapter 4: however often a step runs, the output is the same."""
