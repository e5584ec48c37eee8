"""Copies of tables: generations behind one link, replicas byte for byte or remade."""
