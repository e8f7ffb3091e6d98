"""Writes placeholders: pods that autoscalers see, in the place of those behind our gate that they do not.

The name follows from the first pod that it stands for, so that there are never two, whoever asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from sublet.contract import keys
from sublet.kube.errors import AlreadyExists, KubeError, NotFound
from sublet.kube.kind import PODS
from sublet.kube.port import Json, Kube
from sublet.model.claim import Requirement, Wishes
from sublet_scheduler.core.effects import MakePlaceholder, PlaceholderEffect
from sublet_scheduler.core.events import PlaceholderWritten
from sublet_scheduler.shell.ownpods import idle_spec, own_labels
from sublet_scheduler.shell.placeholderfacts import read_placeholder

log = structlog.get_logger()

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderWrites:
    """`resource`: the name under which cards are asked for; empty: what the pods ask for."""

    kube: Kube
    image: str
    resource: str = ""

    async def perform(self, effect: PlaceholderEffect) -> PlaceholderWritten:
        """What came of it; never raises KubeError."""
        making = isinstance(effect, MakePlaceholder)
        name = effect.name if isinstance(effect, MakePlaceholder) else effect.ref.name
        try:
            pod = await self._perform(effect)
        except KubeError as error:
            if isinstance(error, NotFound) and not making:
                return PlaceholderWritten(name, done=True)
            log.warning("placeholder.unwritten", placeholder=name, error=str(error))
            return PlaceholderWritten(name, done=False)
        log.info("placeholder.written", placeholder=name, write=type(effect).__name__)
        return PlaceholderWritten(name, done=True, pod=read_placeholder(pod) if pod else None)

    async def _perform(self, effect: PlaceholderEffect) -> Json | None:
        if not isinstance(effect, MakePlaceholder):
            ref = effect.ref
            await self.kube.delete(PODS, ref.name, namespace=ref.namespace, uid=effect.uid, grace_period_s=0)
            return None
        try:
            return await self.kube.create(PODS, placeholder_pod(effect, self.image, self.resource))
        except AlreadyExists:
            return await self.kube.get(PODS, effect.name, namespace=keys.PLACEHOLDER_NAMESPACE)


def placeholder_pod(effect: MakePlaceholder, image: str, resource: str) -> dict[str, Any]:
    """It never shares a node with a pod that claims, nor with another placeholder: so it asks for a node of
    its own, also where the totals of a node in use would leave room for it."""
    cards = {resource: effect.cards} if resource else effect.resources
    limits = {name: str(amount) for name, amount in cards.items() if amount}
    requests = {"cpu": f"{effect.cpu_milli}m", "memory": f"{effect.memory_mib}Mi"}
    named = [
        f"{ref.namespace}/{ref.name}/{uid}" for ref, uid in zip(effect.pods, effect.stands_for, strict=True)
    ]
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": effect.name,
            "namespace": keys.PLACEHOLDER_NAMESPACE,
            "labels": own_labels(keys.PLACEHOLDER),
            "annotations": {
                keys.STANDS_FOR: ",".join(named),
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
            },
        },
        "spec": {
            "priorityClassName": keys.PLACEHOLDER_CLASS,
            "nodeSelector": dict(effect.wishes.node_selector),
            "affinity": {**_node_affinity(effect.wishes), "podAntiAffinity": {REQUIRED: _alone()}},
            "tolerations": [
                {
                    key: value
                    for key, value in (
                        ("key", one.key),
                        ("operator", one.operator),
                        ("value", one.value),
                        ("effect", one.effect),
                    )
                    if value
                }
                for one in effect.wishes.tolerations
            ],
            **idle_spec(keys.PLACEHOLDER, image, {"requests": requests | limits, "limits": limits}),
        },
    }


def _node_affinity(wishes: Wishes) -> dict[str, Any]:
    if not wishes.affinity:
        return {}
    terms = [{"matchExpressions": _expressions(term)} for term in wishes.affinity if term]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}} if terms else {}


def _expressions(term: Sequence[Requirement]) -> list[dict[str, Any]]:
    return [
        {"key": one.key, "operator": one.operator} | ({"values": list(one.values)} if one.values else {})
        for one in term
    ]


def _alone() -> list[dict[str, Any]]:
    return [
        {
            "labelSelector": {"matchLabels": {keys.CLAIMED_LABEL: "true"}},
            "namespaceSelector": {},
            "topologyKey": HOSTNAME,
        },
        {"labelSelector": {"matchLabels": {keys.COMPONENT_LABEL: keys.PLACEHOLDER}}, "topologyKey": HOSTNAME},
    ]
