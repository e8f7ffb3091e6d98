"""Judges any placement policy on a trace of pods: it keeps its own ledger and never trusts the policy."""
