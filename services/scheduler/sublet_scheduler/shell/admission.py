"""Answers one review: reads the claim, asks the engine, and writes the outcome as one JSON Patch.

Lack of room, of a bus or of time never refuses a pod: it is admitted behind our gate and decided later.
"""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import uuid4

import structlog

from sublet.contract import decision, keys, pluginless, podspec
from sublet.contract.decision import Decision
from sublet.contract.dialects.interface import NATIVE_NAME, Options
from sublet.contract.patching import admission_patch, elsewhere_patch
from sublet.contract.podspec import Json
from sublet.contract.reading import enabled_dialects, forged_keys, read_pod
from sublet.contract.results import pod_results
from sublet.model.card import Card, Vendor
from sublet.model.claim import PodAsk
from sublet.model.errors import BadRequest, Unavailable
from sublet.model.ids import DecisionId, NodeName
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import EXPLANATIONS, Reason, Refusal, RefusalCode
from sublet_scheduler.core.effects import Answer
from sublet_scheduler.core.events import ReviewAsked
from sublet_scheduler.shell.cards import CardsOf
from sublet_scheduler.shell.review import Request, allow, deny

log = structlog.get_logger()

MIRROR = "kubernetes.io/config.mirror"


class Ask(Protocol):
    async def __call__(self, review: ReviewAsked, *, within_s: float) -> Answer: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """`labels_of` are the labels of a node, `node_labels` those that some node has; `cards_on` are the cards
    of a node, None where pods of DaemonSets get no card that they do not claim; `key` signs decisions;
    `refused` is told of each refusal's code."""

    ask: Ask
    managed: Callable[[str], Awaitable[bool]]
    cards_of: CardsOf
    labels_of: Callable[[NodeName], Mapping[str, str]]
    node_labels: Callable[[], Container[tuple[str, str]]]
    cards_on: Callable[[NodeName], Sequence[Card]] | None
    options: Options
    key: bytes
    budget_s: float
    unix_ms: Callable[[], int]
    refused: Callable[[RefusalCode], None]

    async def claims(self, request: Request) -> bytes:
        """Answer for a pod that names something of ours.

        Raises:
            Unavailable: no decision in time for a pod with spec.nodeName, which no gate can hold.
        """
        pod = request.object
        if pod is None or not _concerns_us(request, pod):
            return allow(request.uid)
        claiming = self._with_whole_card(pod)
        # a look at the namespace is only owed where foreign names would count
        managed = _names_foreign(claiming or pod, self.options) and await self.managed(request.namespace)
        if claiming and managed:
            pod = claiming
        carried = self._carried(pod)
        ask = read_pod(pod, namespace=request.namespace, options=self.options, managed=managed)
        refusal = self._objection(pod, carried, ask, managed=managed)
        if refusal:
            return self._deny(request, refusal)
        if not isinstance(ask, PodAsk):
            return allow(request.uid)
        return await self._answer(request, pod, ask, carried)

    async def elsewhere(self, request: Request) -> bytes:
        """Answer for a pod that names foreign resources in a namespace where they do not count."""
        pod = request.object
        if pod is None or not _concerns_us(request, pod) or (pod.get("spec") or {}).get("nodeName"):
            return allow(request.uid)
        if await self.managed(request.namespace):
            return allow(request.uid)
        namespace, options = request.namespace, self.options
        if read_pod(pod, namespace=namespace, options=options, managed=False) is not None:
            return allow(request.uid)  # it has a claim of ours as well, which must reach our nodes
        if read_pod(pod, namespace=namespace, options=options, managed=True) is None:
            return allow(request.uid)
        return allow(request.uid, elsewhere_patch(pod))

    def _with_whole_card(self, pod: Json) -> dict[str, Any] | None:
        """The pod with a claim of the card of its node, where it is to get that."""
        if self.cards_on is None or "nvidia" not in self.options.enabled:
            return None
        named, node = pluginless.naming_container(pod), pluginless.daemonset_node(pod)
        if not named or not node:
            return None
        [*cards] = self.cards_on(NodeName(node))
        lonely = len(cards) == 1 and cards[0].vendor is Vendor.NVIDIA and not cards[0].partitions
        return pluginless.with_whole_card(pod, named) if lonely else None

    def _carried(self, pod: Json) -> Decision | None:
        """A decision that we wrote into this very object: another round of its own creation.

        One that names a UID was copied from a pod that exists.
        """
        text = podspec.annotations(pod).get(keys.DECISION, "")
        if not text or not decision.is_signed(text, self.key):
            return None
        try:
            found = decision.read(text)
        except BadRequest:
            return None
        return found if found.uid is None else None

    def _objection(
        self, pod: Json, carried: Decision | None, ask: PodAsk | Refusal | None, *, managed: bool
    ) -> Refusal | None:
        options = self.options if managed else replace(self.options, enabled=(NATIVE_NAME,))
        if carried is None:
            forged = forged_keys(pod, options)
            if forged:
                return forged
        elif isinstance(ask, PodAsk):
            return _misused_slot(pod, ask) or None
        return ask if isinstance(ask, Refusal) else None

    async def _answer(self, request: Request, pod: Json, ask: PodAsk, carried: Decision | None) -> bytes:
        review = ReviewAsked(
            decision=DecisionId(uuid4().hex),
            ask=ask,
            known=carried.id if carried else None,
            dry_run=bool(request.dry_run),
            foreign_gates=any(gate != keys.GATE for gate in podspec.gates(pod)),
        )
        id_ = review.known or review.decision
        outcome: Placement | NoRoom | Refusal
        try:
            answer = await self._decide(review, carried)
            id_, outcome = answer.id, answer.outcome
            if isinstance(outcome, Refusal):
                return self._deny(request, outcome)
            patch = self._patch(pod, ask, id_, outcome)
        except Unavailable as error:
            log.warning("decision.missed", pod=str(ask.pod), decision=id_, error=str(error))
            if ask.node_name:
                raise
            outcome = undecided()
            patch = self._patch(pod, ask, id_, outcome)
        warning = f"the pod waits behind its gate: {outcome.message}" if isinstance(outcome, NoRoom) else ""
        return allow(request.uid, patch, warning=warning)

    async def _decide(self, review: ReviewAsked, carried: Decision | None) -> Answer:
        """A decision of ours that the engine does not know may be that of a dry run, or one that was never
        made; such a pod is decided anew. One with a placement was copied from somewhere."""
        answer = await self.ask(review, within_s=self.budget_s)
        unknown = isinstance(answer.outcome, Refusal) and answer.outcome.code is RefusalCode.RESERVED_KEY
        if unknown and carried and (review.dry_run or carried.placement is None):
            return await self.ask(
                replace(review, known=None, decision=DecisionId(uuid4().hex)), within_s=self.budget_s
            )
        return answer

    def _patch(
        self, pod: Json, ask: PodAsk, id_: DecisionId, outcome: Placement | NoRoom
    ) -> list[dict[str, object]]:
        placed = outcome if isinstance(outcome, Placement) else None
        at_ns = self.unix_ms() * 1_000_000
        written = None
        if placed:
            labels = self.labels_of(placed.node)
            written = pod_results(
                ask, placed, self.cards_of(placed), self.options, at_ns=at_ns, labels=labels
            )
        return admission_patch(
            pod,
            ask,
            id_,
            placement=placed,
            written=written,
            waiting=outcome.message if isinstance(outcome, NoRoom) else "",
            options=self.options,
            key=self.key,
            node_labels=self.node_labels(),
        )

    def _deny(self, request: Request, refusal: Refusal) -> bytes:
        self.refused(refusal.code)
        log.info("pod.refused", namespace=request.namespace, code=refusal.code, message=refusal.message)
        return deny(request.uid, refusal)


def undecided() -> NoRoom:
    why = EXPLANATIONS[Reason.UNDECIDED]
    return NoRoom(reasons={Reason.UNDECIDED: 1}, message=f"{why.text}; {why.way_out}")


def _concerns_us(request: Request, pod: Json) -> bool:
    """Pods at their creation, but for the kubelet's mirrors of static pods."""
    mirror = MIRROR in podspec.annotations(pod) and request.user_info.username.startswith("system:node:")
    return request.operation == "CREATE" and request.kind.kind == "Pod" and not mirror


def _names_foreign(pod: Json, options: Options) -> bool:
    """Whether a claim or a result of another dialect than ours stands in the pod."""
    limits = {key for container in podspec.containers(pod) for key in container.limits}
    annotations, labels = podspec.annotations(pod), podspec.labels(pod)
    return any(
        any(one.names(key) for key in limits)
        or any(key in one.claiming_annotations or one.is_result(key) for key in annotations)
        or any(key.startswith(one.result_labels) for key in labels)
        for one in enabled_dialects(options, managed=True)
        if one.name != NATIVE_NAME
    )


def _misused_slot(pod: Json, ask: PodAsk) -> Refusal | None:
    """A slot that is not the one we added, beside a decision of ours."""
    claiming = {claim.container for claim in ask.claims}
    for container in podspec.containers(pod):
        value = str(container.limits.get(keys.SLOT, ""))
        if value and not (container.name in claiming and value == "1"):
            return Refusal(
                code=RefusalCode.RESERVED_RESOURCE,
                message=f"container {container.name!r} has {keys.SLOT}={value!r}",
                hint=f"Leave {keys.SLOT} out, the webhook adds it",
            )
    return None
