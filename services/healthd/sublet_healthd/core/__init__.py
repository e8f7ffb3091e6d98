"""The judge: signals, occupancy and time in, verdicts out; pure."""
