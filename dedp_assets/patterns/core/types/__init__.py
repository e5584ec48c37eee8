"""SQL types: declared, parsed, exact values of, widened, and partition values."""
