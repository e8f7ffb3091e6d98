"""Performs what the judge decides: bus feeds in; verdicts, public events and node status out."""
