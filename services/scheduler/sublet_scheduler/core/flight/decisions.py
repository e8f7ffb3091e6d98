"""What of the engine's effects is a decision, as a document that two runs are compared by."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sublet.contract.decision import grant_document
from sublet.model.placement import NoRoom, Placement
from sublet.model.reasons import Reason
from sublet_scheduler.core.effects import Announce, Answer, Effect, EvictPods, FreeStuckPin

Deciding = Answer | Announce | EvictPods | FreeStuckPin
Document = Mapping[str, Any]


def deciding(effects: Iterable[Effect]) -> tuple[Deciding, ...]:
    """Those effects that decide something."""
    return tuple(one for one in effects if isinstance(one, Deciding))


def documents(effects: Iterable[Deciding]) -> list[Document]:
    return [_document(one) for one in effects]


def _document(effect: Deciding) -> Document:
    match effect:
        case Answer(_, id_, Placement() as placement):
            return {"what": "placed", "decision": id_, **_where(placement)}
        case Answer(_, id_, NoRoom() as no_room):
            return {"what": "held", "decision": id_, "reasons": _reasons(no_room.reasons)}
        case Answer(_, id_, refusal):
            return {"what": "refused", "decision": id_, "code": str(getattr(refusal, "code", ""))}
        case Announce(what, ref, _, id_, placement, reasons):
            told: dict[str, Any] = {"what": f"pod.{what}", "pod": str(ref), "decision": id_}
            if placement:
                told |= _where(placement)
            return told | ({"reasons": _reasons(reasons)} if reasons else {})
        case EvictPods(_, ref, victims):
            return {
                "what": "evicts",
                "pod": str(ref),
                "victims": sorted(str(victim) for _, victim in victims),
            }
        case FreeStuckPin(_, ref):
            return {"what": "frees", "pod": str(ref)}


def _where(placement: Placement) -> dict[str, Any]:
    return {
        "node": placement.node,
        "containers": {
            name: [grant_document(one) for one in grants] for name, grants in placement.containers.items()
        },
    }


def _reasons(reasons: Mapping[Reason, int]) -> dict[str, int]:
    return {str(reason): count for reason, count in sorted(reasons.items())}


def text(told: Sequence[Document]) -> str:
    """For people, one after another."""
    return "; ".join(_sentence(one) for one in told) or "nothing"


def _sentence(told: Document) -> str:
    words = [str(told["what"]), *(str(told[key]) for key in ("pod",) if key in told)]
    if "node" in told:
        cards = [str(grant["card"]) for grants in told["containers"].values() for grant in grants]
        words.append(f"on {told['node']} {','.join(cards)}")
    if told.get("reasons"):
        words.append("(" + ", ".join(f"{count} {reason}" for reason, count in told["reasons"].items()) + ")")
    words += [str(told[key]) for key in ("code",) if key in told]
    if told.get("victims"):
        words.append(", ".join(told["victims"]))
    return " ".join(words)
