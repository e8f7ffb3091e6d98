"""The words everybody shares: values without I/O, without a clock, from the standard library only."""
