"""Lags of tables, slots and topics: samples, trends and totals."""
