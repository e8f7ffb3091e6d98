"""How good a place is: one small pure module for each policy, behind one interface."""
