"""Silver: typed, validated, deduplicated."""
