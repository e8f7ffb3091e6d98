"""The servers of the contract suites; shared by all of them, so that the real one starts once."""

from tests.contract.kubeservers import access, kube, namespace, real_plane

__all__ = ["access", "kube", "namespace", "real_plane"]
