"""Fixtures of the tests that run on real kubelets."""

from tests.lab.fixtures import cluster

__all__ = ["cluster"]
