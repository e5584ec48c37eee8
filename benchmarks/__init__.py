"""Speed as ratios: the platform against what a careful person would write without it, both sides in one run."""
