"""Decides: events in, effects out; no I/O, no clock."""
