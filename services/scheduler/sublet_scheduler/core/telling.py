"""What the engine says of a pod to the outside: public facts, and reports to people."""

from sublet.model.ids import PodRef, PodUid
from sublet.model.reasons import EXPLANATIONS, Reason, ReportCode
from sublet_scheduler.core.effects import Announce, Report
from sublet_scheduler.core.records import PodRecord
from sublet_scheduler.core.state import State


def announce(state: State, what: str, record: PodRecord) -> None:
    state.effects.append(Announce(what, record.ref, record.uid, record.decision, record.placement))


def report(state: State, code: ReportCode, message: str, *, ref: PodRef, uid: PodUid) -> None:
    state.effects.append(Report(code, message, ref=ref, uid=uid))


def explain(reason: Reason) -> str:
    return f"{EXPLANATIONS[reason].text}; {EXPLANATIONS[reason].way_out}"
