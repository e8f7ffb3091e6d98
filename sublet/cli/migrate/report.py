"""The report of `sublet migrate`: workloads, components, namespaces, and what stands against it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublet.cli import asking
from sublet.cli.migrate.change import names, would_write
from sublet.cli.migrate.component import Component, components
from sublet.cli.migrate.workload import Outcome, Reading, read, workloads
from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.contract.podspec import Json

SCHEMA = 1
AGAINST = (Outcome.REFUSED, Outcome.OUTSIDE)
MOST_NODES = 3
"""So many are named in a table; all of them in JSON."""

WORKLOADS = ("WORKLOAD", "OUTCOME", "CONTAINER", "DIALECT", "CLAIM", "NOTE")
COMPONENTS = ("COMPONENT", "SYSTEM", "ROLE", "NODES", "GOES", "WAY OUT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    options: Options
    readings: tuple[Reading, ...]
    """Of those workloads that concern cards."""
    unconcerned: int
    components: tuple[Component, ...]

    @property
    def to_label(self) -> tuple[str, ...]:
        """Namespaces in which workloads of another system are not read yet."""
        return tuple(sorted({one.workload.namespace for one in self.readings if one.waits_for_label}))

    @property
    def against(self) -> int:
        """Workloads that are refused or stay outside, and components that would serve cards twice."""
        return sum(one.outcome in AGAINST for one in self.readings) + sum(
            one.serves for one in self.components
        )


def report(objects: Iterable[Json], options: Options) -> Report:
    """`objects` are of any kinds, as they come from manifests or from the API server. Whoever shows no
    namespaces is taken to give all of them to Sublet, as the other offline commands do."""
    listed = list(objects)
    managed = {
        one["metadata"]["name"]: (one["metadata"].get("labels") or {}).get(keys.MANAGE_LABEL) == "true"
        for one in listed
        if one.get("kind") == "Namespace"
    }
    found = components(listed)
    theirs = {(one.kind, one.namespace, one.name) for one in found}
    readings = [
        read(one, options, managed=managed.get(one.namespace))
        for one in workloads(listed)
        if (one.kind, one.namespace, one.name) not in theirs
    ]
    concerned = tuple(one for one in readings if one.outcome is not Outcome.UNCLAIMED)
    return Report(
        options=options,
        readings=concerned,
        unconcerned=len(readings) - len(concerned),
        components=tuple(found),
    )


def document(told: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "dialects": list(told.options.enabled),
        "workloads": [_workload(one, told.options) for one in told.readings],
        "unclaimed": told.unconcerned,
        "components": [_component(one) for one in told.components],
        "namespacesToLabel": list(told.to_label),
        "against": told.against,
    }


def _workload(one: Reading, options: Options) -> dict[str, Any]:
    workload, ask = one.workload, one.ask
    return {
        "apiVersion": workload.api_version,
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "template": workload.at,
        "outcome": one.outcome.value,
        "managed": one.managed,
        "dialects": list(one.spoken),
        "containers": {
            claim.container: asking.claim_document(claim) | {"dialect": claim.dialect}
            for claim in (ask.claims if ask else ())
        },
        "changes": [{"what": change.what.value, "message": change.message} for change in one.changes],
        "writes": names(would_write(ask, options)) if ask else {},
        "refused": asking.refusal_document(one.refusal) if one.refusal else None,
        "outside": {"message": one.outside[0], "hint": one.outside[1]} if one.outside else None,
    }


def _component(one: Component) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "system": one.system,
        "role": one.role.value,
        "nodes": list(one.nodes),
        "goes": one.when.value,
        "servesTwice": one.serves,
        "wayOut": one.way_out,
    }


def workload_rows(told: Report) -> list[tuple[str, ...]]:
    return [row for one in told.readings for row in _rows(one)]


def _rows(one: Reading) -> list[tuple[str, ...]]:
    head = (one.workload.title, one.outcome.value)
    notes = _notes(one)
    if one.ask is None:
        return [(*head, "-", ",".join(one.spoken) or "-", "-", notes)]
    return [
        (*head, claim.container, claim.dialect, asking.claim_words(claim), notes if at == 0 else "")
        for at, claim in enumerate(one.ask.claims)
    ]


def _notes(one: Reading) -> str:
    said = [f"{one.refusal.code}: {one.refusal.message}. {one.refusal.hint}"] if one.refusal else []
    said += [f"{one.outside[0]}. {one.outside[1]}"] if one.outside else []
    said += [change.message for change in one.changes]
    if one.waits_for_label:
        said.append(f"read once namespace {one.workload.namespace} is labelled")
    if one.outcome is Outcome.PLACED:
        said.append("Sublet decided on it")
    if one.outcome is Outcome.HELD:
        said.append(
            f"it waits for cards; `sublet explain {one.workload.namespace}/{one.workload.name}` says why"
        )
    return "; ".join(said) or "-"


def component_rows(told: Report) -> list[tuple[str, ...]]:
    return [
        (one.title, one.system or "?", one.role.value, _nodes(one.nodes), one.when.value, one.way_out)
        for one in told.components
    ]


def _nodes(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
    return ",".join(nodes[:MOST_NODES]) + more if nodes else "-"


def closing(told: Report, *, of_files: bool) -> list[str]:
    """What is left to do, and the verdict; `of_files`: no cluster was looked at."""
    counts = _counts(told.readings)
    listed = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "none claims cards"
    serving = sum(one.serves for one in told.components)
    lines = [f"Workloads: {listed}; {told.unconcerned} without cards."]
    lines.append(f"Dialects that are read: {', '.join(told.options.enabled)}.")
    lines += [f"To do: kubectl label namespace {name} {keys.MANAGE_LABEL}=true" for name in told.to_label]
    against = sum(one.outcome in AGAINST for one in told.readings)
    if told.against:
        lines.append(
            f"Not ready: {_several(against, 'workload')} would be refused or stay outside, "
            f"{_several(serving, 'component')} would serve cards or change pods beside Sublet."
        )
    elif of_files:
        lines.append(
            "Ready, as far as these files tell: nothing in them would be refused or serve cards beside "
            "Sublet. No cluster was looked at: `sublet migrate` without -f does."
        )
    else:
        lines.append("Ready: nothing would be refused, and nothing serves cards twice.")
    return lines


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _counts(readings: Iterable[Reading]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for one in readings:
        counts[one.outcome.value] = counts.get(one.outcome.value, 0) + 1
    return counts
