"""Reading a pod: is it ours, what does each container claim, where may it go.

Called for every admission review, every claiming pod of the watch and by the offline commands.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sublet.contract import dialects, keys, podspec
from sublet.contract.dialects.interface import NATIVE_NAME, Dialect, Options
from sublet.contract.gangs import read_gang
from sublet.contract.podspec import ContainerSpec, Json
from sublet.contract.quantity import whole_number
from sublet.contract.wishes import read_wishes
from sublet.model.claim import Claim, ContainerKind, PodAsk, Requirement
from sublet.model.ids import NodeName, PodRef
from sublet.model.reasons import Refusal, RefusalCode

MOST_CLAIMS = 64
"""Claiming containers of one pod: the shares of four full cards, and what a search may cost."""


def enabled_dialects(options: Options, *, managed: bool) -> tuple[Dialect, ...]:
    """The dialects that count here: all enabled ones in a managed namespace, else our own alone."""
    return tuple(one for one in dialects.enabled(options) if managed or one.name == NATIVE_NAME)


def read_pod(pod: Json, *, namespace: str, options: Options, managed: bool) -> PodAsk | Refusal | None:
    """What `pod` asks for; None where it claims nothing that counts in its namespace.

    Keys that only the scheduler writes are not judged here (see `forged_keys`): the same reading
    serves pods that carry our results already.
    """
    known = enabled_dialects(options, managed=managed)
    found = list(podspec.containers(pod))
    unknown = _unknown_resource(found)
    if unknown:
        return unknown
    claims: list[Claim] = []
    for container, position in zip(found, _positions(found), strict=True):
        claim = _claim(container, pod, known, options)
        if isinstance(claim, Refusal):
            return claim
        if claim:
            claims.append(replace(claim, position=position))
    if not claims:
        return None
    if len(claims) > MOST_CLAIMS:
        return Refusal(
            code=RefusalCode.TOO_MANY_CLAIMS,
            message=f"{len(claims)} containers of the pod claim cards, at most {MOST_CLAIMS} may",
            hint="Spread them over several pods",
        )
    foreign = _foreign_wishes(pod, claims)
    if isinstance(foreign, Refusal):
        return foreign
    wishes = read_wishes(pod, [claim.cards for claim in claims], options.tolerate, foreign)
    if isinstance(wishes, Refusal):
        return wishes
    needs = _requirements(pod, claims, options)
    wishes = replace(wishes, affinity=_narrowed(wishes.affinity, needs), needs=needs)
    gang = read_gang(pod)
    if isinstance(gang, Refusal):
        return gang
    heired = _with_heirs(claims)
    if isinstance(heired, Refusal):
        return heired
    try:
        cpu_milli, memory_mib = podspec.host_requests(pod)
        resources = _resources(found, claims, known)
        priority = int((pod.get("spec") or {}).get("priority") or 0)
    except (ValueError, TypeError) as error:
        return Refusal(code=RefusalCode.UNREADABLE, message=str(error), hint="Correct the quantity")
    owner, owner_kind = podspec.controller(pod)
    node_name = (pod.get("spec") or {}).get("nodeName")
    return PodAsk(
        pod=PodRef(namespace, (pod.get("metadata") or {}).get("name") or ""),
        claims=heired,
        wishes=wishes,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        resources=resources,
        priority=priority,
        preempts=(pod.get("spec") or {}).get("preemptionPolicy") != "Never",
        gang=gang,
        node_name=NodeName(node_name) if node_name else None,
        containers=tuple(container.name for container in found),
        owner=owner,
        owner_kind=owner_kind,
    )


def forged_keys(pod: Json, options: Options) -> Refusal | None:
    """A refusal where a pod brings keys that only the scheduler writes."""
    known = dialects.enabled(options)
    for key, value in podspec.annotations(pod).items():
        if keys.is_reserved(key) or any(one.is_result(key) for one in known):
            return _reserved("annotation", key, value)
    for key, value in podspec.labels(pod).items():
        if key == keys.CLAIMED_LABEL or any(key.startswith(one.result_labels) for one in known):
            return _reserved("label", key, value)
    if keys.GATE in podspec.gates(pod):
        return _reserved("scheduling gate", keys.GATE, "")
    for container in podspec.containers(pod):
        if keys.SLOT in container.limits:
            return Refusal(
                code=RefusalCode.RESERVED_RESOURCE,
                message=f"container {container.name!r} has {keys.SLOT}={str(container.limits[keys.SLOT])!r}",
                hint=f"Leave {keys.SLOT} out, the webhook adds it; ask with {keys.GPU} or {keys.GPU_MEMORY}",
            )
    return None


def _reserved(what: str, key: str, value: object) -> Refusal:
    written = f"{key}={str(value)[:80]!r}" if value else key
    return Refusal(
        code=RefusalCode.RESERVED_KEY,
        message=f"the {what} {written} is written by the scheduler only",
        hint="Remove it from the pod; a copied pod gets a decision of its own",
    )


def _unknown_resource(found: Sequence[ContainerSpec]) -> Refusal | None:
    """No node ever shows such a resource: the pod would get its cards and never start."""
    known = {*keys.NATIVE_RESOURCES, keys.SLOT}
    for container in found:
        for key in container.limits:
            if keys.is_ours(key) and key not in known:
                return Refusal(
                    code=RefusalCode.UNKNOWN_RESOURCE,
                    message=f"container {container.name!r} asks for {key}, which does not exist",
                    hint=f"Known: {', '.join(keys.NATIVE_RESOURCES)}",
                )
    return None


def _positions(found: Sequence[ContainerSpec]) -> list[int]:
    before = sum(container.kind is not ContainerKind.MAIN for container in found)
    main = len(found) - before
    return [*range(main, len(found)), *range(main)]


def replaced_scheduler(pod: Json, claims: Sequence[Claim], options: Options) -> str:
    """The other system's scheduler that `pod` names and that makes way for the default one, if any."""
    named = (pod.get("spec") or {}).get("schedulerName") or ""
    foreign = any(claim.dialect != NATIVE_NAME for claim in claims)
    theirs = {one.scheduler for one in dialects.enabled(options) if one.scheduler}
    return named if foreign and named in theirs and not options.keep_scheduler_name else ""


def _claim(
    container: ContainerSpec, pod: Json, known: Sequence[Dialect], options: Options
) -> Claim | Refusal | None:
    speaking = [one for one in known if one.speaks(container, pod, options)]
    if not speaking:
        return None
    if len(speaking) > 1:
        written = sorted(
            f"{key}={str(value)!r}"
            for one in speaking
            for key, value in (
                *((key, value) for key, value in container.limits.items() if one.names(key)),
                *(item for item in podspec.annotations(pod).items() if item[0] in one.claiming_annotations),
            )
        )
        return Refusal(
            code=RefusalCode.TWO_DIALECTS,
            message=f"container {container.name!r} speaks {' and '.join(one.name for one in speaking)}: "
            + ", ".join(written),
            hint="Keep one spelling a container; other containers of the pod may use another",
        )
    return speaking[0].claim(container, pod, options)


def _foreign_wishes(pod: Json, claims: Sequence[Claim]) -> dict[str, str] | Refusal:
    """What the annotations of the dialects that the pod speaks wish for, as annotations of ours."""
    wishes: dict[str, str] = {}
    for name in sorted({claim.dialect for claim in claims}):
        found = dialects.BY_NAME[name].wishes(pod)
        if isinstance(found, Refusal):
            return found
        wishes |= found
    classes = {claim.service_class for claim in claims if claim.service_class}
    if len(classes) == 1:
        wishes[keys.SERVICE_CLASS] = classes.pop()
    return wishes


def _requirements(pod: Json, claims: Sequence[Claim], options: Options) -> tuple[Requirement, ...]:
    """What the dialects that the pod speaks need of its node."""
    spoken = sorted({claim.dialect for claim in claims})
    return tuple(one for name in spoken for one in dialects.BY_NAME[name].requirements(pod, options))


def _narrowed(
    terms: tuple[tuple[Requirement, ...], ...], needed: tuple[Requirement, ...]
) -> tuple[tuple[Requirement, ...], ...]:
    """`needed` in every alternative but the empty ones, which match nothing; or as the only one."""
    if not needed:
        return terms
    return tuple((*term, *needed) if term else term for term in terms) or (needed,)


def _with_heirs(claims: Sequence[Claim]) -> tuple[Claim, ...] | Refusal:
    """Name for each plain init container who takes over its slot, as the kubelet hands devices on."""
    last_init = next((c.container for c in reversed(claims) if c.kind is ContainerKind.INIT), "")
    result: list[Claim] = []
    for at, claim in enumerate(claims):
        if claim.kind is not ContainerKind.INIT:
            result.append(claim)
            continue
        heir = next((one for one in claims[at + 1 :] if one.kind is not ContainerKind.INIT), None)
        if heir is None:
            result.append(replace(claim, heir="" if claim.container == last_init else last_init))
            continue
        if claim.cards > heir.cards:
            return Refusal(
                code=RefusalCode.INIT_LARGER_THAN_HEIR,
                message=f"init container {claim.container!r} asks for {claim.cards} cards, "
                f"container {heir.container!r}, which takes over its slot, for {heir.cards}",
                hint="Ask for at least as many cards in the later container",
            )
        result.append(replace(claim, heir=heir.container))
    return tuple(result)


def _resources(
    found: Sequence[ContainerSpec], claims: Sequence[Claim], known: Sequence[Dialect]
) -> dict[str, int]:
    """Effective requests of extended resources, counted as kube-scheduler does, one slot a claim added."""
    claiming = {claim.container for claim in claims}

    def amount(key: str, container: ContainerSpec) -> int:
        if key == keys.SLOT:
            return int(container.name in claiming)
        value: Any = whole_number(container.limits.get(key, 0), key=key, unit="units", stored=True)
        return value if isinstance(value, int) else 0

    names = {key for c in found for key in c.limits if any(one.names(key) for one in known)}
    return {
        key: podspec.effective(found, lambda container, key=key: amount(key, container))  # type: ignore[misc]
        for key in sorted({*names, keys.SLOT})
    }
