"""`sublet cards --inventory`, and the inventory that comes back from it."""

import yaml

from sublet.cli.cards import card_views
from sublet.cli.picture import Cluster
from sublet.contract.inventory import read_inventory
from sublet.model.ids import CardId
from sublet.model.placement import CardUse
from tests.unit.cli.running import Sublet

INVENTORY = """
nodes:
- name: n2
  cards: [{uuid: C, memoryMiB: null, health: held}]
- name: n1
  cards:
  - {uuid: B, index: 1, memoryMiB: 8192, model: NVIDIA L4}
  - {uuid: A, index: 0, memoryMiB: 8192}
  grants:
  - {pod: ns/b, container: main, card: A, memoryMiB: 1024, corePercent: 10}
  - {pod: ns/a, container: main, card: A, memoryMiB: 2048}
"""


def test_cards_come_by_node_then_index_with_what_is_promised(sublet: Sublet) -> None:
    ran = sublet("cards", "--inventory", sublet.file("i.yaml", INVENTORY), "-o", "json")
    assert [(one["node"], one["card"]) for one in ran.json] == [("n1", "A"), ("n1", "B"), ("n2", "C")]
    assert ran.json[0] == {
        "node": "n1",
        "card": "A",
        "index": 0,
        "model": "",
        "memoryMiB": 8192,
        "shareableMiB": 8192,
        "shareableCorePercent": 100,
        "usedMiB": 3072,
        "usedCorePercent": 10,
        "health": "healthy",
        "reasons": [],
        "containers": [
            {"pod": "ns/a", "container": "main", "memoryMiB": 2048, "corePercent": 0},
            {"pod": "ns/b", "container": "main", "memoryMiB": 1024, "corePercent": 10},
        ],
    }


DIVIDED = """
nodes:
- name: n1
  cards:
  - uuid: A
    mig: true
    memoryMiB: 40960
    partitions:
    - {uuid: MIG-1, profile: 1g.5gb, memoryMiB: 4864, gi: 7, ci: 0, slices: 1}
    - {uuid: MIG-2, profile: 3g.20gb, memoryMiB: 19968}
  - {uuid: B, mig: true, memoryMiB: 40960}
  grants: [{pod: ns/a, container: main, card: MIG-1, exclusive: true}]
"""


def test_partitions_stand_in_place_of_their_card(sublet: Sublet) -> None:
    ran = sublet("cards", "--inventory", sublet.file("i.yaml", DIVIDED), "-o", "json")
    shown = [(one["card"], one.get("profile"), one.get("slices"), one.get("parent")) for one in ran.json]
    assert shown == [("MIG-1", "1g.5gb", 1, "A"), ("MIG-2", "3g.20gb", None, "A"), ("B", None, None, None)]
    assert [one["usedMiB"] for one in ran.json] == [4864, 0, 0]
    assert ran.json[0]["containers"] == [
        {"pod": "ns/a", "container": "main", "memoryMiB": 4864, "corePercent": 100}
    ]
    assert ran.json[2]["reasons"] == ["NoPartitions"]


def test_where_there_are_partitions_the_table_names_profiles(sublet: Sublet) -> None:
    rows = sublet("cards", "--inventory", sublet.file("i.yaml", DIVIDED)).out.splitlines()
    assert [row.split()[-2:] for row in rows] == [
        ["PROFILE", "REASONS"],
        ["1g.5gb", "-"],
        ["3g.20gb", "-"],
        ["-", "NoPartitions"],
    ]


def test_partitions_read_back_to_the_same(sublet: Sublet) -> None:
    ran = sublet("cards", "--inventory", sublet.file("i.yaml", DIVIDED), "-o", "inventory")
    again = sublet("cards", "--inventory", sublet.file("j.yaml", ran.out), "-o", "inventory")
    assert "gi: 7" in ran.out
    assert again.out == ran.out


def test_in_a_pipe_every_container_has_a_whole_row(sublet: Sublet) -> None:
    ran = sublet("cards", "--inventory", sublet.file("i.yaml", INVENTORY))
    assert ran.out.splitlines() == [
        "NODE  CARD  INDEX  HEALTH   MEMORY MiB  CORE %  POD   CONTAINER  SHARE           REASONS",
        "n1    A     0      healthy  3072/8192   10/100  ns/a  main       2048 MiB        -",
        "n1    A     0      healthy  3072/8192   10/100  ns/b  main       1024 MiB, 10 %  -",
        "n1    B     1      healthy  0/8192      0/100   -     -          -               -",
        "n2    C     0      held     0/?         0/100   -     -          -               -",
    ]


def test_the_inventory_that_is_written_reads_back_to_the_same(sublet: Sublet) -> None:
    ran = sublet("cards", "--inventory", sublet.file("i.yaml", INVENTORY), "-o", "inventory")
    again = sublet("cards", "--inventory", sublet.file("j.yaml", ran.out), "-o", "inventory")
    assert again.out == ran.out
    assert len(read_inventory(yaml.safe_load(ran.out))) == 2


def promising(more: str) -> str:
    return INVENTORY.replace("index: 0, memoryMiB: 8192", f"index: 0, memoryMiB: 8192, {more}")


def test_what_may_be_promised_stands_beside_what_there_is(sublet: Sublet) -> None:
    more = INVENTORY.replace("index: 0, memoryMiB: 8192", "index: 0, memoryMiB: 8192, shareableMiB: 12288")
    file = sublet.file(
        "i.yaml", more.replace("shareableMiB: 12288", "shareableMiB: 12288, shareableCorePercent: 150")
    )
    [first, *_] = sublet("cards", "--inventory", file, "-o", "json").json
    assert (first["memoryMiB"], first["shareableMiB"], first["shareableCorePercent"]) == (8192, 12288, 150)
    assert "3072/12288 of 8192  10/150 of 100" in sublet("cards", "--inventory", file).out
    written = sublet("cards", "--inventory", file, "-o", "inventory").out
    assert sublet("cards", "--inventory", sublet.file("j.yaml", written), "-o", "inventory").out == written


def test_no_inventory_promises_less_than_there_is_or_ten_times_as_much(sublet: Sublet) -> None:
    for most in (8191, 81921):
        text = INVENTORY.replace(
            "index: 0, memoryMiB: 8192", f"index: 0, memoryMiB: 8192, shareableMiB: {most}"
        )
        ran = sublet("cards", "--inventory", sublet.file("i.yaml", text))
        assert (ran.code, f"{most} is not from 8192 MiB to 10 times as much" in ran.err) == (2, True)


def test_what_others_use_of_a_card_stands_beside_its_shares() -> None:
    [node] = read_inventory(
        {"nodes": [{"name": "n1", "cards": [{"uuid": "A", "memoryMiB": 8192, "usedOutsideMiB": 512}]}]}
    )
    by = ("pod u-1", "process 7 Xorg")
    use = CardUse(card=CardId("A"), processes=2, used_mib=500, outside_mib=500, outside_by=by)
    [view] = card_views(Cluster(nodes=(node,), reasons={}, health={}, uses={use.card: use}))
    assert (view["usedOutsideMiB"], view["usedOutsideBy"]) == (512, ["pod u-1", "process 7 Xorg"])


def test_outside_use_has_a_row_of_its_own(sublet: Sublet) -> None:
    used = INVENTORY.replace("memoryMiB: 8192}", "memoryMiB: 8192, usedOutsideMiB: 512}")
    rows = sublet("cards", "--inventory", sublet.file("i.yaml", used)).out.splitlines()
    assert [row.split()[6:] for row in rows[1:4]] == [
        ["ns/a", "main", "2048", "MiB", "-"],
        ["ns/b", "main", "1024", "MiB,", "10", "%", "-"],
        ["used", "outside", "-", "512", "MiB", "-"],
    ]
