"""Copies of tables: versions behind one name, editions behind one link, replicas byte for byte or remade."""
