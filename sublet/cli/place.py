"""`sublet place`: where the given manifests would go on the nodes of an inventory, one after another."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from sublet_scheduler.core.shapes import Policies
from sublet_scheduler.core.waiting import waits

from sublet.cli import asking
from sublet.cli.commands import Commands
from sublet.cli.gathering import gather
from sublet.cli.inventory import read_inventory_file
from sublet.cli.manifest import read_pods
from sublet.cli.offline import Decided, OfflineFleet
from sublet.cli.output import add_output, print_json, print_table
from sublet.contract import decision, keys
from sublet.contract.dialects.interface import Options
from sublet.contract.overcommit import Overcommit
from sublet.contract.podspec import Json
from sublet.contract.results import pod_results
from sublet.model.claim import PodAsk, Policy
from sublet.model.errors import BadRequest
from sublet.model.ids import DecisionId
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason, Refusal, RefusalCode

COLUMNS = ("POD", "OUTCOME", "NODE", "CONTAINER", "CARD", "INDEX", "MEMORY", "CORE", "NOTE")
POLICIES = tuple(one.value for one in Policy)
DEFAULT = Policy.FRAGMENTATION.value


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "place", help="where manifests would go on an inventory (offline)", description=__doc__
    )
    asking.add_arguments(parser)
    parser.add_argument("--inventory", required=True, metavar="FILE", help="the nodes and their cards")
    for policy in ("--node-policy", "--card-policy"):
        parser.add_argument(policy, choices=POLICIES, default=DEFAULT, help="for pods that wish nothing")
    for what, unit in (("memory", "memory"), ("core", "compute")):
        parser.add_argument(
            f"--overcommit-{what}",
            type=_entries,
            default=(),
            metavar="A:RATIO,B=C:RATIO",
            help=f"promise so much more {unit} than cards have, by model or node label",
        )
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    options = asking.options_of(arguments)
    policies = Policies(Policy(arguments.node_policy), Policy(arguments.card_policy))
    nodes = read_inventory_file(arguments.inventory)
    pods = read_pods(arguments.files)
    overcommit = Overcommit.read(memory=arguments.overcommit_memory, core=arguments.overcommit_core)
    fleet = OfflineFleet(nodes, options, policies, overcommit)
    documents = place_all(pods, fleet, options)
    if arguments.output == "json":
        print_json(documents)
    else:
        print_table(COLUMNS, [row for document in documents for row in _rows(document)])
    return 0


def _entries(text: str) -> tuple[str, ...]:
    entries = tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        Overcommit.read(memory=entries, core=())
    except BadRequest as error:
        raise argparse.ArgumentTypeError(f"{error.args[0]}. {error.hint}") from None
    return entries


def place_one(pod: Json, fleet: OfflineFleet, options: Options) -> dict[str, Any]:
    [document] = place_all([pod], fleet, options)
    return document


def place_all(pods: Sequence[Json], fleet: OfflineFleet, options: Options) -> list[dict[str, Any]]:
    """One after another; the members of a gang all at once, in the turn of the first."""
    asks = [asking.read_ask(pod, options) for pod in pods]
    gangs = gather(pods, asks)
    decided: dict[int, Decided] = {}
    documents = []
    for at, (pod, ask) in enumerate(zip(pods, asks, strict=True)):
        name = asking.pod_name(pod)
        if ask is None:
            fleet.stand(pod)
            documents.append(_document(name, "unclaimed"))
        elif isinstance(ask, Refusal):
            documents.append(_document(name, "refused", reasons={ask.code: 1}, message=str(ask)))
        else:
            if at not in decided and ask.gang and not ask.node_name:
                gathered = gangs[ask.pod.namespace, ask.gang.name]
                members = [one for one in map(asks.__getitem__, gathered.members) if isinstance(one, PodAsk)]
                found = fleet.place_gang(members, gathered.gang, gathered.others)
                decided.update(zip(gathered.members, found, strict=True))
            documents.append(_decided(name, ask, decided.get(at) or _alone(ask, fleet), fleet, options))
    return documents


def _alone(ask: PodAsk, fleet: OfflineFleet) -> Decided:
    if ask.gang:
        text = "a pod of a gang waits for the others, and a pod that names its node cannot wait"
        return DecisionId(""), waits(Reason.GANG_INCOMPLETE, text)
    return fleet.place(ask)


def _decided(
    name: str, ask: PodAsk, decided: Decided, fleet: OfflineFleet, options: Options
) -> dict[str, Any]:
    id_, outcome = decided
    off = asking.off_in_a_cluster(ask)
    further = {"offInACluster": off} if off else {}
    if isinstance(outcome, NoRoom):
        if ask.node_name:
            refusal = Refusal(
                code=RefusalCode.NODE_CANNOT_TAKE_IT,
                message=f"spec.nodeName={ask.node_name!r} cannot take the pod: {outcome.message}",
                hint="Leave spec.nodeName out, so that another node can be chosen",
            )
            return _document(name, "refused", reasons=outcome.reasons, message=str(refusal)) | further
        return _document(name, "held", reasons=outcome.reasons, message=outcome.message) | further
    return _placed(name, ask, id_, outcome, fleet, options) | further


def _placed(
    name: str, ask: PodAsk, id_: DecisionId, placement: Placement, fleet: OfflineFleet, options: Options
) -> dict[str, Any]:
    node = placement.node
    written = pod_results(ask, placement, fleet.cards(node), options, at_ns=0, labels=fleet.labels(node))
    decided = decision.write(id_, placement, uid=None, key=b"")
    return _document(
        name,
        "placed",
        node=placement.node,
        containers={
            container: [decision.grant_document(grant) for grant in grants]
            for container, grants in placement.containers.items()
        },
        annotations={keys.DECISION: decided, **written.annotations},
        labels=written.labels,
        env={container: dict(sorted(env.items())) for container, env in written.env.items()},
    )


def _document(
    name: str,
    outcome: str,
    *,
    node: str | None = None,
    containers: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    env: Mapping[str, Mapping[str, str]] | None = None,
    reasons: Mapping[Any, int] | None = None,
    message: str = "",
) -> dict[str, Any]:
    return {
        "schema": asking.SCHEMA,
        "pod": name,
        "outcome": outcome,
        "node": node,
        "containers": containers or {},
        "annotations": dict(sorted((annotations or {}).items())),
        "labels": dict(sorted((labels or {}).items())),
        "env": env or {},
        "reasons": {str(reason): count for reason, count in (reasons or {}).items()},
        "message": message,
    }


def _rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    head = (document["pod"], document["outcome"], document["node"] or "-")
    off = asking.off_words(document.get("offInACluster", ()))
    if not document["containers"]:
        notes = "; ".join(note for note in (document["message"], off) if note)
        return [(*head, "-", "-", "-", "-", "-", notes)]
    return [
        (
            *head,
            container,
            grant["card"],
            str(grant["index"]),
            "whole" if grant["memoryMiB"] is None else f"{grant['memoryMiB']} MiB",
            f"{grant['corePercent']} %",
            off,
        )
        for container, grants in document["containers"].items()
        for grant in grants
    ]
