"""`sublet claims`: what each container of the given manifests asks for, in one language for all dialects."""

import argparse
from typing import Any

from sublet.cli import asking
from sublet.cli.commands import Commands
from sublet.cli.manifest import read_pods
from sublet.cli.output import add_output, print_json, print_table
from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.contract.patching import DEFAULT_SCHEDULER
from sublet.contract.podspec import Json
from sublet.contract.reading import replaced_scheduler
from sublet.model.claim import PodAsk
from sublet.model.reasons import Refusal

COLUMNS = ("POD", "CONTAINER", "KIND", "DIALECTS", "CARDS", "MEMORY", "CORE", "NOTE")


def register(commands: Commands) -> None:
    parser = commands.add_parser("claims", help="what manifests ask for (offline)", description=__doc__)
    asking.add_arguments(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    options = asking.options_of(arguments)
    documents = [claims_of(pod, options) for pod in read_pods(arguments.files)]
    if arguments.output == "json":
        print_json(documents)
    else:
        print_table(COLUMNS, [row for document in documents for row in _rows(document)])
    return 0


def claims_of(pod: Json, options: Options) -> dict[str, Any]:
    ask = asking.read_ask(pod, options)
    claims = ask.claims if isinstance(ask, PodAsk) else ()
    replaced = replaced_scheduler(pod, claims, options)
    document = {
        "schema": asking.SCHEMA,
        "pod": asking.pod_name(pod),
        "dialects": asking.spoken(pod, options),
        "containers": {claim.container: asking.claim_document(claim) for claim in claims},
        "refused": asking.refusal_document(ask) if isinstance(ask, Refusal) else None,
    }
    if isinstance(ask, PodAsk) and (wishes := asking.wishes_document(ask.wishes)):
        document["wishes"] = wishes
    off = asking.off_in_a_cluster(ask)
    return (
        document
        | ({"schedulerName": {"from": replaced, "to": DEFAULT_SCHEDULER}} if replaced else {})
        | ({"offInACluster": off} if off else {})
    )


def _rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
    pod, dialects = document["pod"], ",".join(document["dialects"])
    if document["refused"]:
        note = asking.refusal_words(document["refused"])
        return [(pod, "-", "-", dialects, "-", "-", "-", note)]
    if not document["containers"]:
        return [(pod, "-", "-", "-", "-", "-", "-", "no claim")]
    return [
        (
            pod,
            name,
            claim["kind"],
            dialects,
            str(claim["cards"]),
            _memory(claim),
            f"{claim['corePercent']} %",
            _note(document, claim),
        )
        for name, claim in document["containers"].items()
    ]


def _note(document: dict[str, Any], claim: dict[str, Any]) -> str:
    names = document.get("schedulerName")
    wishes = (f"{key.removeprefix(keys.PREFIX)} {value}" for key, value in document.get("wishes", {}).items())
    notes = (
        "exclusive" if claim["exclusive"] else "",
        f"profile {claim['profile']}" if claim["profile"] else "",
        "over several cards where one has too little" if claim.get("grows") else "",
        *wishes,
        f"schedulerName {names['from']} becomes {names['to']}" if names else "",
        asking.off_words(document.get("offInACluster", ())),
    )
    return "; ".join(note for note in notes if note)


def _memory(claim: dict[str, Any]) -> str:
    if claim["exclusive"]:
        return "whole"
    if claim["memoryMiB"] is not None:
        return f"{claim['memoryMiB']} MiB"
    percent = claim["memoryPercent"]
    return f"{claim['corePercent'] if percent is None else percent} %"
