"""`sublet explain POD`: what a pod asked for, what was decided, or why it waits and what would help."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from sublet.cli import asking, reaching
from sublet.cli.commands import Commands
from sublet.cli.output import add_output, print_json
from sublet.contract import decision, dialects, keys, podspec
from sublet.contract.decision import Decision
from sublet.contract.dialects.interface import Options
from sublet.contract.podspec import Json
from sublet.contract.queue import Order, order
from sublet.contract.reading import read_pod
from sublet.contract.waiting import nearest_in, without_nearest
from sublet.model.claim import PodAsk
from sublet.model.errors import BadRequest, NotFound
from sublet.model.ids import PodRef
from sublet.model.reasons import EXPLANATIONS, Reason, Refusal

COUNTED = re.compile(r"(\d+) ([A-Z][A-Za-z]+)")


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "explain", help="what a pod asked for and what became of it", description=__doc__
    )
    parser.add_argument("pod", metavar="POD", help="name, or namespace/name")
    parser.add_argument("-n", "--namespace", default="default")
    asking.add_unit(parser)
    reaching.add_kube(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    pod, managed, claimed, placeholders = asyncio.run(_read(arguments))
    options = Options(enabled=tuple(dialects.BY_NAME), stored=True, **asking.units_of(arguments))
    document = explanation(pod, managed=managed, options=options, claimed=claimed, placeholders=placeholders)
    if arguments.output == "json":
        print_json(document)
    else:
        print("\n".join(lines(document)))
    return 0


async def _read(arguments: argparse.Namespace) -> tuple[Json, bool, Sequence[Json], Sequence[Json]]:
    """The pod, whether foreign names count in its namespace, and all claimed pods and all placeholders that
    may be seen."""
    from sublet.kube.errors import KubeError
    from sublet.kube.errors import NotFound as KubeNotFound
    from sublet.kube.kind import NAMESPACES, PODS
    from sublet.kube.port import Selection

    reaching.quiet_log()
    before, slash, after = arguments.pod.partition("/")
    namespace, name = (before, after) if slash else (arguments.namespace, before)
    async with reaching.open_kube(arguments) as kube:
        try:
            pod = await kube.get(PODS, name, namespace=namespace)
        except KubeNotFound:
            raise NotFound(
                f"no pod {name} in namespace {namespace}",
                hint="Name another namespace with -n; `kubectl get pods -A` lists all pods",
            ) from None
        labels = (await kube.get(NAMESPACES, namespace))["metadata"].get("labels") or {}
        claimed: Sequence[Json] = ()
        placeholders: Sequence[Json] = ()
        if keys.GATE in podspec.gates(pod):
            with suppress(KubeError):  # who may not list all pods is told no place in the queue
                claimed = await kube.list(PODS, Selection(labels=f"{keys.CLAIMED_LABEL}=true"))
            with suppress(KubeError):
                ours = f"{keys.COMPONENT_LABEL}={keys.PLACEHOLDER}"
                select = Selection(namespace=keys.PLACEHOLDER_NAMESPACE, labels=ours)
                placeholders = await kube.list(PODS, select)
    return pod, labels.get(keys.MANAGE_LABEL) == "true", claimed, placeholders


STORED = Options(enabled=tuple(dialects.BY_NAME), stored=True)


def explanation(
    pod: Json,
    *,
    managed: bool,
    options: Options = STORED,
    claimed: Sequence[Json] = (),
    placeholders: Sequence[Json] = (),
) -> dict[str, Any]:
    """`managed`: whether foreign names count in the pod's namespace; for a claimed pod they did.
    `options` are what the cluster sets; `claimed` are all pods that carry our label,
    `placeholders` those that ask an autoscaler for nodes."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    is_claimed = keys.CLAIMED_LABEL in podspec.labels(pod)
    ask = read_pod(pod, namespace=meta["namespace"], options=options, managed=managed or is_claimed)
    written = _decision(pod)
    placement = written.placement if written else None
    gated = keys.GATE in podspec.gates(pod)
    waiting = podspec.annotations(pod).get(keys.WAITING, "")
    reasons = reasons_in(waiting)
    return {
        "schema": asking.SCHEMA,
        "pod": asking.pod_name(pod),
        "outcome": _outcome(ask, gated=gated, decided=placement is not None, claimed=is_claimed),
        "phase": (pod.get("status") or {}).get("phase") or "Pending",
        "gated": gated,
        "node": spec.get("nodeName") or (placement.node if placement else None),
        "dialects": list(ask.dialects) if isinstance(ask, PodAsk) else [],
        "claims": {
            claim.container: asking.claim_document(claim)
            for claim in (ask.claims if isinstance(ask, PodAsk) else ())
        },
        "wishes": asking.wishes_document(ask.wishes) if isinstance(ask, PodAsk) else {},
        "refused": asking.refusal_document(ask) if isinstance(ask, Refusal) else None,
        "decision": written.id if written else None,
        "containers": {
            name: [
                {
                    "card": grant.card,
                    "index": grant.index,
                    "memoryMiB": grant.memory_mib,
                    "corePercent": grant.core_percent,
                }
                for grant in grants
            ]
            for name, grants in (placement.containers.items() if placement else ())
        },
        "queue": _queue(pod, claimed, options),
        "placeholder": _placeholder(pod, placeholders) if gated else None,
        "reasons": {str(reason): count for reason, count in reasons.items()},
        "message": waiting,
        "nearest": nearest_in(waiting),
        "waysOut": {str(reason): EXPLANATIONS[reason].way_out for reason in reasons},
    }


def _outcome(ask: PodAsk | Refusal | None, *, gated: bool, decided: bool, claimed: bool) -> str:
    if ask is None or not claimed:
        return "unclaimed"
    if isinstance(ask, Refusal):
        return "refused"
    if gated:
        return "proposed" if decided else "held"
    return "placed" if decided else "undecided"


def _queue(pod: Json, claimed: Sequence[Json], options: Options) -> dict[str, int] | None:
    """Where the pod stands among all that wait; None where it waits not, or nobody could be counted."""
    waiting = [one for one in claimed if keys.GATE in podspec.gates(one)]
    places = sorted(_order(one, options) for one in waiting)
    mine = _order(pod, options)
    return {"position": places.index(mine) + 1, "waiting": len(places)} if mine in places else None


def _placeholder(pod: Json, placeholders: Sequence[Json]) -> dict[str, Any] | None:
    """The pod that asks an autoscaler for a node in the name of this one."""
    uid = pod["metadata"].get("uid", "")
    for one in placeholders:
        told = podspec.annotations(one).get(keys.STANDS_FOR, "").split(",")
        if uid in [text.rpartition("/")[2] for text in told]:
            return {"name": asking.pod_name(one), "node": (one.get("spec") or {}).get("nodeName")}
    return None


def _order(pod: Json, options: Options) -> Order:
    meta = pod["metadata"]
    ask = read_pod(pod, namespace=meta["namespace"], options=options, managed=True)
    created = meta.get("creationTimestamp")
    return order(
        rank=ask.rank if isinstance(ask, PodAsk) else 0,
        created_s=datetime.fromisoformat(created).timestamp() if created else 0.0,
        pod=PodRef(meta["namespace"], meta["name"]),
        uid=meta.get("uid", ""),
    )


def _decision(pod: Json) -> Decision | None:
    text = podspec.annotations(pod).get(keys.DECISION, "")
    try:
        return decision.read(text) if text else None
    except BadRequest:
        return None


def reasons_in(waiting: str) -> Mapping[Reason, int]:
    """The counted reasons that a waiting note names, or the one whose words it is."""
    counted = {Reason(word): int(number) for number, word in COUNTED.findall(waiting) if word in list(Reason)}
    if counted or not waiting:
        return counted
    return {reason: 1 for reason, why in EXPLANATIONS.items() if waiting.startswith(why.text)}


def lines(document: Mapping[str, Any]) -> list[str]:
    """The explanation for people."""
    told = [f"{document['pod']}: {document['outcome']}, {document['phase']}"]
    if document["outcome"] == "unclaimed":
        told.append(
            f"  it claims nothing of Sublet's; foreign names count in namespaces labelled "
            f"{keys.MANAGE_LABEL}=true, and only for pods created after that"
        )
    if document["refused"]:
        refused = document["refused"]
        told.append(f"  {refused['code']}: {refused['message']}. {refused['hint']}")
    told += [f"  asked by {name}: {_asked(claim)}" for name, claim in document["claims"].items()]
    told += [f"  wishes {key}: {value}" for key, value in document["wishes"].items()]
    if document["containers"]:
        told.append(f"  decided {document['decision']}: node {document['node']}")
        told += [
            f"    {name}: card {grant['card']} (index {grant['index']}), {_granted(grant)}"
            for name, grants in document["containers"].items()
            for grant in grants
        ]
    if document["queue"]:
        place = document["queue"]
        told.append(f"  in the queue: {place['position']} of {place['waiting']} that wait")
    if document["placeholder"]:
        name, node = document["placeholder"]["name"], document["placeholder"]["node"]
        came = f"and has got {node}, whose cards cannot be used yet" if node else "and has got none yet"
        told.append(f"  placeholder {name} asks an autoscaler for a node for it, {came}")
    if document["message"]:
        told.append(f"  waits: {_sentence(document)}")
    if document["nearest"]:
        told.append(f"  nearest miss, when that was written: {document['nearest']}")
    for reason, count in document["reasons"].items():
        why = EXPLANATIONS[Reason(reason)]
        told.append(f"    {count} x {reason}: {why.text}; way out: {why.way_out}")
    return told


def _sentence(document: Mapping[str, Any]) -> str:
    """The note without what has a line of its own: the nearest miss and the ways out."""
    sentence = without_nearest(document["message"])
    for way_out in document["waysOut"].values():
        sentence = sentence.removesuffix(f"; {way_out}")
    return sentence


def _cards(count: int) -> str:
    return "1 card" if count == 1 else f"{count} cards"


def _asked(claim: Mapping[str, Any]) -> str:
    if claim["exclusive"]:
        return f"{claim['cards']} whole card{'s' * (claim['cards'] > 1)}"
    if claim["memoryMiB"] is not None:
        memory = f"{claim['memoryMiB']} MiB"
    else:
        percent = claim["memoryPercent"]
        memory = f"{claim['corePercent'] if percent is None else percent} % of the memory"
    return f"{memory} and {claim['corePercent']} % of the compute of {_cards(claim['cards'])}"


def _granted(grant: Mapping[str, Any]) -> str:
    memory = "the whole memory" if grant["memoryMiB"] is None else f"{grant['memoryMiB']} MiB"
    return f"{memory}, {grant['corePercent']} % compute"
