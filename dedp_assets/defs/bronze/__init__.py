"""Bronze: data as it landed."""
