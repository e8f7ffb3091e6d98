"""Writes docs/reference from the code, so that no page can say what the code does not do."""
