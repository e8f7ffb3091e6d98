"""Why a pod waits or is refused."""

from sublet.model.reasons import EXPLANATIONS, REFUSALS, REPORTS, Reason, RefusalCode, ReportCode
from tools.reference.page import code, page, table


def render() -> str:
    return page(
        "Reasons and refusal codes",
        "A code is an interface: later versions add some, none is renamed. They stand in admission answers, in the "
        "annotation `sublet.dev/waiting`, in `sublet explain` and `sublet place`, and in the labels of metrics.",
        "## Reasons: readable, but no room now",
        "The pod is admitted and waits behind its gate. Every node that is ruled out counts once under its own code, "
        "every card of the others once under the first thing that stands against it, in this order.",
        table(
            ("code", "means", "way out"),
            ((code(one), EXPLANATIONS[one].text, EXPLANATIONS[one].way_out) for one in Reason),
        ),
        "## Refusal codes: no fleet could satisfy it",
        "The API server denies the pod; the message quotes key and value as written.",
        table(
            ("code", "means", "way out"),
            ((code(one), REFUSALS[one].text, REFUSALS[one].way_out) for one in RefusalCode),
        ),
        "## Reports",
        "Reasons of the Kubernetes Events that the scheduler writes; each is an audit event on the bus as well.",
        table(
            ("code", "means", "way out"),
            ((code(one), REPORTS[one].text, REPORTS[one].way_out) for one in ReportCode),
        ),
    )
