"""`sublet migrate`: what coming to Sublet would mean for each workload, and what must go first."""
