"""YAML documents: places, models of attributes, faults."""
