"""The file that says which nodes an autoscaler can add."""

from pathlib import Path

import pytest
from sublet_scheduler.shell.pools import read_pools

from sublet.model.errors import BadRequest

GOOD = """
nodes:
- name: a100-pool
  labels: {pool: a100}
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  cpuMilli: 96000
  memoryMiB: 1048576
  cards:
  - {uuid: a, memoryMiB: 81920, model: A100}
  - {uuid: b, memoryMiB: 81920, model: A100}
"""


def read(tmp_path: Path, text: str) -> list[tuple[str, int, int, int]]:
    path = tmp_path / "pools.yaml"
    path.write_text(text)
    return [
        (one.facts.labels["pool"], one.facts.cpu_milli, len(one.inventory.cards), len(one.facts.taints))
        for one in read_pools(path)
    ]


def test_each_node_of_the_inventory_is_a_kind_that_can_be_added(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD) == [("a100", 96_000, 2, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: [", "cannot be read"),
        ("nodes: [{name: p, cardz: []}]", "cardz"),
        ("nodes: [{name: p, cards: [{uuid: a}]}]", "memoryMiB"),
    ],
)
def test_what_is_no_inventory_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        read_pools(tmp_path / "none.yaml")
