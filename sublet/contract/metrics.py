"""Names that dashboards and alerts see: of every measure, and of the labels by which series are joined.

They are an interface: never renamed, each written in this file alone. Every service exports a measure under
the one name it has here; `_total` is added to counters by the text format.
"""

from sublet.contract.pci import pci_address
from sublet.model.card import Card
from sublet.model.ids import CardId, NodeName

CARD_LABELS = ("gpu", "UUID", "pci_bus_id", "modelName", "Hostname")
"""Of a card, named and written as dcgm-exporter does."""
GRANT_LABELS = (*CARD_LABELS, "namespace", "pod", "container")

# cards
CARDS = "sublet_cards"
CARD_MEMORY_MIB = "sublet_card_memory_mib"
CARD_PROMISED_MIB = "sublet_card_promised_mib"
CARD_PROMISED_CORE_PERCENT = "sublet_card_promised_core_percent"
CARD_USED_MIB = "sublet_card_used_mib"
CARD_OUTSIDE_MIB = "sublet_card_outside_mib"
CARD_OUTSIDE_USERS = "sublet_card_outside_users"
CARD_SHAREABLE_MIB = "sublet_card_shareable_mib"
CARD_SHAREABLE_CORE_PERCENT = "sublet_card_shareable_core_percent"
CARD_SHARES = "sublet_card_shares"
CARD_OPEN = "sublet_card_open"
CARD_LOST = "sublet_card_lost"
CARD_HEALTH_STATE = "sublet_card_health_state"
CARD_SCHEDULABLE = "sublet_card_schedulable"
CARD_REASON_ACTIVE = "sublet_card_reason_active"
CARD_REASON_AGE_SECONDS = "sublet_card_reason_age_seconds"
CARD_SILENCE_SECONDS = "sublet_card_silence_seconds"
CARD_SIGNALS = "sublet_card_signals"
CARD_TRANSITIONS = "sublet_card_transitions"

# grants
GRANT_MEMORY_MIB = "sublet_grant_memory_mib"
GRANT_CORE_PERCENT = "sublet_grant_core_percent"
GRANT_USED_MIB = "sublet_grant_used_mib"

# reserved for idle cards
BALLAST_CPU_CORES = "sublet_ballast_cpu_cores"
BALLAST_MEMORY_BYTES = "sublet_ballast_memory_bytes"

# decisions
CLAIMS = "sublet_claims"
DECISIONS = "sublet_decisions"
DECISION_SECONDS = "sublet_decision_seconds"
LEDGER_CONFLICTS = "sublet_ledger_conflicts"
PLACEHOLDERS = "sublet_placeholders"
PLACES_SOUGHT = "sublet_places_sought"
REFUSALS = "sublet_refusals"
RELEASE_SECONDS = "sublet_release_seconds"
REPORTS = "sublet_reports"
WAITING_PODS = "sublet_waiting_pods"

# the node
REGISTERED = "sublet_agent_registered"
SIGNALS_DROPPED = "sublet_agent_signals_dropped"
SIGNALS_FOLDED = "sublet_agent_signals_folded"
SIGNALS_SENT = "sublet_agent_signals_sent"
SIGNALS_WAITING = "sublet_agent_signals_waiting"
SLOTS = "sublet_agent_slots"
STARTS_WAITING = "sublet_agent_starts_waiting"
START_SECONDS = "sublet_agent_start_seconds"
VERDICT_AGE_SECONDS = "sublet_agent_verdict_age_seconds"

# healthd
BREAKER_STATE = "sublet_healthd_breaker_state"
EVICTIONS = "sublet_healthd_evictions"
JUDGE_SECONDS = "sublet_healthd_decision_seconds"
OUT_FRACTION = "sublet_healthd_out_fraction"

# the bus
BUS_CONNECTED = "sublet_bus_connected"
BUS_IGNORED_MESSAGES = "sublet_bus_ignored_messages"
BUS_LAG_MESSAGES = "sublet_bus_lag_messages"
BUS_POISONED_MESSAGES = "sublet_bus_poisoned_messages"
FACTS_DROPPED = "sublet_facts_dropped"


def labels_of(node: NodeName, card: Card) -> tuple[str, ...]:
    """Values of `CARD_LABELS`."""
    return card_labels(node, card.id, index=card.index, pci=card.pci or "", model=card.model)


def card_labels(
    node: NodeName, card: CardId | None, *, index: int | None = None, pci: str = "", model: str = ""
) -> tuple[str, ...]:
    """Values of `CARD_LABELS` where no more of the card is known than this; `card` is None for a node."""
    return ("" if index is None else str(index), card or "", _bus_id(pci), model, node)


def _bus_id(pci: str) -> str:
    """As the driver's own tools print it: eight digits of domain, capital letters."""
    address = pci_address(pci)
    return f"0000{address}".upper() if address else ""
