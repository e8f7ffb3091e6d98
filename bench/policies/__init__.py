"""Placement policies for the referee: the scheduler's own engine, and others made anew to compare with."""
