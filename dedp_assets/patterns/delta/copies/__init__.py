"""Copies of tables: editions behind one link, replicas byte for byte or remade."""
