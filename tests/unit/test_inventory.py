"""The inventory document: what is read, what is refused and in which words, and that it comes back."""

import pytest
import yaml

from sublet.contract.inventory import InventoryNode, inventory_document, read_inventory
from sublet.contract.pci import pci_address
from sublet.model.card import Link, Vendor
from sublet.model.errors import BadRequest
from sublet.model.health import HealthState
from sublet.model.ids import CardId

FULL = """
nodes:
- name: n1
  labels: {zone: a}
  annotations: {note: x}
  taints: [{key: x, value: y, effect: NoSchedule}]
  unschedulable: true
  cpuMilli: 32000
  memoryMiB: 512000
  pods: 50
  sharesPerCard: 4
  cards:
  - {uuid: GPU-1, index: 4, memoryMiB: 81920, model: NVIDIA A100, numa: 1, pci: "00000000:B3:00",
     serial: "77", minor: 2, health: held, links: {GPU-2: nvlink}, mig: true, usedOutsideMiB: 9,
     partitions: [{uuid: MIG-1, profile: 1g.10gb+me, memoryMiB: 9856, gi: 7, ci: 0, slices: 1}]}
  - {uuid: GPU-2, index: 2, memoryMiB: null, vendor: amd}
  grants:
  - {pod: ns/p, container: main, card: GPU-1, memoryMiB: 1024, corePercent: 10, exclusive: false}
"""


def read(text: str) -> tuple[InventoryNode, ...]:
    return read_inventory(yaml.safe_load(text))


def refusal(text: str) -> str:
    with pytest.raises(BadRequest) as refused:
        read(text)
    return str(refused.value)


def card(entry: str) -> str:
    return f"nodes: [{{name: n1, cards: [{{uuid: GPU-1, memoryMiB: 1024, {entry}}}]}}]"


def test_every_key_arrives_in_the_model() -> None:
    [node] = read(FULL)
    second, first = node.cards
    assert (node.cpu_milli, node.memory_mib, node.pods, node.shares_per_card) == (32000, 512000, 50, 4)
    assert node.unschedulable
    assert node.labels == {"zone": "a"}
    assert (first.index, first.memory_mib, first.numa, first.minor, first.serial) == (4, 81920, 1, 2, "77")
    assert first.pci == "0000:b3:00.0"
    assert first.health is HealthState.HELD
    assert first.mig
    [part] = first.partitions
    assert (part.profile, part.gi, part.ci, part.slices) == ("1g.10gb.me", 7, 0, 1)
    assert (second.vendor, second.memory_mib) == (Vendor.AMD, None)
    assert node.grants[0].memory_mib == 1024


def test_what_is_left_out_has_the_documented_default() -> None:
    [node] = read("nodes: [{name: n1, cards: [{uuid: GPU-1, memoryMiB: 1024}, {uuid: GPU-2, memoryMiB: 1}]}]")
    assert (node.cpu_milli, node.memory_mib, node.pods, node.shares_per_card) == (64000, 262144, 110, 16)
    assert [one.index for one in node.cards] == [0, 1]
    assert node.cards[0].vendor is Vendor.NVIDIA


def test_a_link_written_in_one_direction_holds_in_both() -> None:
    [node] = read(FULL)
    assert node.cards[0].links == {CardId("GPU-1"): Link.NVLINK}


def test_an_exclusive_grant_has_the_whole_card() -> None:
    [node] = read(
        "nodes: [{name: n1, cards: [{uuid: GPU-1, memoryMiB: 7}], "
        "grants: [{pod: a/b, card: GPU-1, exclusive: true}]}]"
    )
    assert (node.grants[0].memory_mib, node.grants[0].core_percent) == (7, 100)


def test_what_was_read_is_written_back_as_the_same() -> None:
    nodes = read(FULL)
    assert read(yaml.safe_dump(inventory_document(nodes))) == nodes


def test_defaults_are_not_written_out() -> None:
    [document] = yaml.safe_load(yaml.safe_dump(inventory_document(read("nodes: [{name: n1}]"))))["nodes"]
    assert document == {"name": "n1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodez: []", "unknown key 'nodez'"),
        ("nodes: [{name: n1, cpu: 1}]", "unknown key 'cpu' at nodes[0](n1)"),
        (card("uid: x"), "unknown key 'uid' at nodes[0](n1).cards[0](GPU-1)"),
        ("nodes: [{}]", "nodes[0].name is missing"),
        ("nodes: [{name: n1, cards: [{memoryMiB: 1}]}]", "nodes[0](n1).cards[0].uuid is missing"),
        ("nodes: [{name: n1, cards: [{uuid: G}]}]", "nodes[0](n1).cards[0](G).memoryMiB is missing"),
        (
            "nodes: [{name: n1, cards: [{uuid: G, memoryMiB: 80Gi}]}]",
            "nodes[0](n1).cards[0](G).memoryMiB: '80Gi' is not a whole number of at least 1",
        ),
        ("nodes: [{name: n1, cards: [{uuid: G, memoryMiB: 1.5}]}]", "1.5 is not a whole number"),
        ("nodes: [{name: n1, pods: true}]", "nodes[0](n1).pods: True is not a whole number"),
        ("nodes: [{name: n1, labels: {zone: 1}}]", "nodes[0](n1).labels.zone: 1 is not text"),
        ("nodes: [{name: n1, cards: {}}]", "nodes[0](n1).cards: {} is not a list"),
        ("nodes: [n1]", "nodes[0]: 'n1' is not a mapping"),
        ("- n1", "the document: ['n1'] is not a mapping"),
        (card("health: sick"), "health: 'sick' is not one of lost, held"),
        (card("vendor: intel"), "vendor: 'intel' is not one of nvidia, amd"),
        (card("links: {GPU-2: cable}"), "links.GPU-2: 'cable' is not one of nvlink, switch, host"),
        (card("links: {GPU-1: nvlink}"), "'GPU-1' is linked to itself"),
        (card("mig: 'yes'"), "mig: 'yes' is not true or false"),
        ("nodes: [{name: n1, taints: [{key: a, effect: Never}]}]", "effect: 'Never' is not one of"),
        ("nodes: [{name: n1}, {name: n1}]", "node 'n1' appears twice"),
        (
            "nodes: [{name: a, cards: [{uuid: G, memoryMiB: 1}]}, "
            "{name: b, cards: [{uuid: G, memoryMiB: 1}]}]",
            "uuid 'G' appears twice",
        ),
        (
            "nodes: [{name: n, cards: [{uuid: A, memoryMiB: 1, index: 1}, {uuid: B, memoryMiB: 1}]}]",
            "index '1' appears twice",
        ),
        (
            "nodes: [{name: n, cards: [{uuid: A, memoryMiB: 1, links: {B: host}}, "
            "{uuid: B, memoryMiB: 1, links: {A: nvlink}}]}]",
            "'A' and 'B' are linked by host and by nvlink",
        ),
        ("nodes: [{name: n, grants: [{pod: a/b, card: X}]}]", "'X' is not a card of this node"),
        (
            "nodes: [{name: n, cards: [{uuid: A, memoryMiB: 1}], grants: [{pod: b, card: A}]}]",
            "'b' is not of the form namespace/name",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_value_and_place(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize(
    "text", ["0000:b3:00", "00000000:B3:00.0", "PCI:0000:b3:00", "b3:00.0", "0000:b3:00.0"]
)
def test_a_pci_address_has_one_form_however_it_is_written(text: str) -> None:
    assert pci_address(text) == "0000:b3:00.0"


def test_what_is_no_pci_address_is_not_guessed_at() -> None:
    assert pci_address("slot 4") is None
