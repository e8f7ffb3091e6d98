"""The servers of the contract suites; shared by all of them, so that the real one starts once."""

from tests.contract.kubeservers import access, kube, namespace, real_plane
from tests.lab.fixtures import api_server

__all__ = ["access", "api_server", "kube", "namespace", "real_plane"]
