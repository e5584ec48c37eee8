"""Migrations of schemas: phases, moves and forms."""
