"""The Kubernetes resources this project touches, as addresses under the API server."""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One resource: where it lives in the API and what its objects are called."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of its subresource.

        A namespaced kind without a namespace means all namespaces.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def _core(plural: str, kind: str, *, namespaced: bool = True) -> Kind:
    return Kind(group="", version="v1", plural=plural, kind=kind, namespaced=namespaced)


def _group(group: str, plural: str, kind: str, *, namespaced: bool = True, version: str = "v1") -> Kind:
    return Kind(group=group, version=version, plural=plural, kind=kind, namespaced=namespaced)


PODS = _core("pods", "Pod")
NODES = _core("nodes", "Node", namespaced=False)
NAMESPACES = _core("namespaces", "Namespace", namespaced=False)
EVENTS = _core("events", "Event")
SECRETS = _core("secrets", "Secret")
CONFIGMAPS = _core("configmaps", "ConfigMap")
SERVICES = _core("services", "Service")
RESOURCE_QUOTAS = _core("resourcequotas", "ResourceQuota")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount")
LEASES = _group("coordination.k8s.io", "leases", "Lease")
DEPLOYMENTS = _group("apps", "deployments", "Deployment")
REPLICASETS = _group("apps", "replicasets", "ReplicaSet")
STATEFULSETS = _group("apps", "statefulsets", "StatefulSet")
DAEMONSETS = _group("apps", "daemonsets", "DaemonSet")
JOBS = _group("batch", "jobs", "Job")
CRON_JOBS = _group("batch", "cronjobs", "CronJob")
CUSTOM_RESOURCES = _group(
    "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOKS = _group(
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
ADMISSION_POLICIES = _group(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
ADMISSION_POLICY_BINDINGS = _group(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
CLUSTER_ROLES = _group("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = _group(
    "rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
RESOURCE_SLICES = _group("resource.k8s.io", "resourceslices", "ResourceSlice", namespaced=False)
DEVICE_TAINT_RULES = _group("resource.k8s.io", "devicetaintrules", "DeviceTaintRule", namespaced=False)
POD_DISRUPTION_BUDGETS = _group("policy", "poddisruptionbudgets", "PodDisruptionBudget")
