"""Reading the annotations and the scheduling fields that say where a claiming pod may go.

No annotation of ours is ever read and ignored: an unknown one, a bad value or one whose feature is
not built yet refuses the pod by name.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sublet.contract import keys, podspec
from sublet.contract.podspec import Json
from sublet.model.claim import Apart, LinkWish, Policy, ServiceClass, Wishes
from sublet.model.ids import CardId
from sublet.model.reasons import Refusal, RefusalCode

NUMA_VALUES = ("same",)
_USUAL: Mapping[ServiceClass | None, Policy] = {
    ServiceClass.ONLINE: Policy.SPREAD,
    ServiceClass.OFFLINE: Policy.BINPACK,
}
"""The policies of pods of a class that wish for none."""

_NONE: Mapping[str, str] = MappingProxyType({})


def read_wishes(
    pod: Json,
    cards_per_claim: Sequence[int],
    tolerate: Sequence[str],
    foreign: Mapping[str, str] = _NONE,
) -> Wishes | Refusal:
    """The wishes of a claiming pod; `cards_per_claim` are its claims' numbers of cards, `tolerate` the
    taint keys that every claiming pod tolerates, `foreign` what annotations of other systems wish for in
    our words."""
    written = {key: value for key, value in podspec.annotations(pod).items() if keys.is_ours(key)}
    for key, value in sorted(written.items()):
        refusal = _judge(key, value)
        if refusal:
            return refusal
    for key, value in foreign.items():
        if key in written and written[key] != value:
            return Refusal(
                code=RefusalCode.CONFLICTING_KEYS,
                message=f"annotation {key}={written[key]!r} says something else than the other system's "
                f"annotation, which means {value!r}",
                hint="Keep one of the two",
            )
    written |= foreign
    same_card = written.get(keys.SAME_CARD)
    if same_card is not None and any(count != 1 for count in cards_per_claim):
        return Refusal(
            code=RefusalCode.CONFLICTING_KEYS,
            message=f"{keys.SAME_CARD}={same_card!r} with a claim of {max(cards_per_claim)} cards",
            hint="A same-card group shares one card: ask for one card in each container",
        )
    if same_card is not None and keys.APART in written:
        return Refusal(
            code=RefusalCode.CONFLICTING_KEYS,
            message=f"{keys.SAME_CARD}={same_card!r} with {keys.APART}={written[keys.APART]!r}",
            hint="Pods share a card or keep apart: remove one of the two",
        )
    service_class = ServiceClass(written[keys.SERVICE_CLASS]) if keys.SERVICE_CLASS in written else None
    usual = _USUAL.get(service_class)
    return Wishes(
        card_models=_names(written, keys.CARD_MODELS),
        exclude_card_models=_names(written, keys.EXCLUDE_CARD_MODELS),
        card_uuids=tuple(CardId(one) for one in _list(written, keys.CARD_UUIDS)),
        exclude_card_uuids=tuple(CardId(one) for one in _list(written, keys.EXCLUDE_CARD_UUIDS)),
        node_policy=Policy(written[keys.NODE_POLICY]) if keys.NODE_POLICY in written else usual,
        card_policy=Policy(written[keys.CARD_POLICY]) if keys.CARD_POLICY in written else usual,
        service_class=service_class,
        link=LinkWish(written.get(keys.LINK, LinkWish.PREFERRED)),
        one_numa=keys.NUMA in written,
        apart=Apart(written[keys.APART]) if keys.APART in written else None,
        same_card=same_card,
        node_selector=dict((pod.get("spec") or {}).get("nodeSelector") or {}),
        affinity=podspec.required_affinity(pod),
        tolerations=podspec.tolerations(pod) + podspec.missing_tolerations(pod, tolerate),
    )


def _judge(key: str, value: object) -> Refusal | None:
    if keys.is_reserved(key):
        return None
    if not isinstance(value, str):  # the API server stores text alone; a file may say anything
        return _bad(key, value, ("text; put the value in quotes",))
    if key not in keys.USER_ANNOTATIONS:
        return Refusal(
            code=RefusalCode.UNKNOWN_ANNOTATION,
            message=f"unknown annotation {key}={value!r}",
            hint=f"Known: {', '.join(sorted(keys.USER_ANNOTATIONS))}",
        )
    if key == keys.ISOLATION:
        return None if value == "none" else _not_yet(key, value)
    if key in (keys.NODE_POLICY, keys.CARD_POLICY):
        return None if value in list(Policy) else _bad(key, value, tuple(Policy))
    if key == keys.LINK:
        return None if value in list(LinkWish) else _bad(key, value, tuple(LinkWish))
    if key == keys.APART:
        return None if value in list(Apart) else _bad(key, value, tuple(Apart))
    if key == keys.NUMA:
        return None if value in NUMA_VALUES else _bad(key, value, NUMA_VALUES)
    if key == keys.SERVICE_CLASS:
        return None if value in list(ServiceClass) else _bad(key, value, tuple(ServiceClass))
    if key in (keys.GANG, keys.GANG_SIZE):
        return None  # read together, see `gangs`
    if not value.strip(" ,"):
        return _bad(key, value, ("a name",) if key == keys.SAME_CARD else ("a comma list",))
    return None


def _bad(key: str, value: object, allowed: Sequence[str]) -> Refusal:
    return Refusal(
        code=RefusalCode.BAD_ANNOTATION,
        message=f"annotation {key}={value!r} is not understood",
        hint=f"Allowed: {', '.join(allowed)}",
    )


def _not_yet(key: str, value: str) -> Refusal:
    return Refusal(
        code=RefusalCode.NOT_SUPPORTED_YET,
        message=f"annotation {key}={value!r} is known, but this version cannot honour it yet",
        hint="Remove the annotation",
    )


def _list(written: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in written.get(key, "").split(",") if part.strip())


def _names(written: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in _list(written, key))
