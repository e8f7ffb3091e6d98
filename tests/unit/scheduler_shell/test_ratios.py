"""The file that says what is kept for idle cards."""

from pathlib import Path

import pytest
from sublet_scheduler.core.ratio import Ratio
from sublet_scheduler.shell.ratios import read_ratios

from sublet.model.errors import BadRequest
from tests.manifests.rendering import KUSTOMIZE

GOOD = """
- {nodeSelector: {pool: a100}, cpu: 500m, memory: 8G}
- {nodeSelector: {}, cpu: 8}
"""


def read(tmp_path: Path, text: str) -> tuple[Ratio, ...]:
    path = tmp_path / "ratios.yaml"
    path.write_text(text)
    return read_ratios(path)


def test_each_entry_is_a_pool_and_what_its_idle_cards_have_kept(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD) == (
        Ratio(selector={"pool": "a100"}, cpu_milli=500, memory_bytes=8 * 10**9),
        Ratio(selector={}, cpu_milli=8_000, memory_bytes=0),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b", "not a list"),
        ("- [", "cannot be read"),
        ("- 4", "ratio 0 is 4, not a mapping"),
        ("- {cpu: 4}", "ratio 0 has no nodeSelector"),
        ("- {nodeSelector: {}, cpus: 4}", "unknown keys: cpus"),
        ("- {nodeSelector: pool, cpu: 4}", "nodeSelector 'pool'"),
        ("- {nodeSelector: {pool: 1}, cpu: 4}", "nodeSelector {'pool': 1}"),
        ("- {nodeSelector: {}}", "neither cpu nor memory"),
        ("- {nodeSelector: {}, cpu: -1}", "cpu: -1"),
        ("- {nodeSelector: {}, cpu: many}", "cpu: 'many'"),
        ("- {nodeSelector: {}, cpu: yes}", "cpu: True"),
        ("- {nodeSelector: {}, cpu: 4}\n- {nodeSelector: {}, memory: 0.5}", "ratio 1 has memory: 0.5"),
    ],
)
def test_what_is_no_ratio_is_refused_with_its_place_and_value(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        read_ratios(tmp_path / "none.yaml")


def test_the_ratios_of_the_component_are_read() -> None:
    [kept] = read_ratios(KUSTOMIZE / "components" / "ballast" / "ratios.yaml")
    assert kept == Ratio(selector={}, cpu_milli=4_000, memory_bytes=32 * 2**30)
