"""The file that says which pods to expect."""

from pathlib import Path

import pytest
from sublet_scheduler.shell.workload import read_workload

from sublet.contract.dialects.interface import Options
from sublet.model.errors import BadRequest

GOOD = """
- weight: 30
  limits: {sublet.dev/gpu-memory: 4096, sublet.dev/gpu-core: 20}
  requests: {cpu: "2", memory: 8Gi}
  annotations: {sublet.dev/card-models: a100}
- limits: {nvidia.com/gpu: 2}
"""


def read(tmp_path: Path, text: str) -> list[tuple[int, int, tuple[str, ...], float]]:
    path = tmp_path / "workload.yaml"
    path.write_text(text)
    return [
        (ask.claims[0].cards, ask.cpu_milli, ask.wishes.card_models, weight)
        for ask, weight in read_workload(path, Options())
    ]


def test_each_entry_is_a_pod_and_its_weight(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD) == [(1, 2_000, ("a100",), 30.0), (2, 0, (), 1.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b", "not a list"),
        ("- [", "cannot be read"),
        ("- {limits: {nvidia.com/gpu: 1}, wait: 3}", "other keys"),
        ("- {limits: {nvidia.com/gpu: 1}, weight: 0}", "weight 0"),
        ("- {limits: {nvidia.com/gpu: 1}, weight: yes}", "weight True"),
        ("- {limits: {cpu: 1}}", "claims nothing"),
        ("- {limits: {sublet.dev/gpu-memory: 4Gi}}", "4Gi"),
    ],
)
def test_what_no_pod_could_ask_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        read_workload(tmp_path / "none.yaml", Options())
