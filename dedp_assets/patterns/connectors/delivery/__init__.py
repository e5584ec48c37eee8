"""Deliveries to sinks: requests, receipts, files and topics."""
