"""Measuring: figures with limits, usual values, calendars, costs and troubles."""
