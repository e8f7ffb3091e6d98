"""Which settings open which sources of cards."""

from pathlib import Path

import pytest
from sublet_agent.settings import Settings, Source
from sublet_agent.shell.origins import open_origins

from sublet.cards.port import DRIVER_NOT_LOADED
from sublet.model.card import Vendor
from tests.amdtree.tree import AmdGpu, AmdTree


def settings(folder: Path, cards: Source) -> Settings:
    return Settings(
        node="n1",
        cards=cards,
        nvml_library=str(folder / "libnvidia-ml.so.1"),
        sysfs_root=str(folder),
        dev_root=str(folder),
        poll_s=0.02,
    )


@pytest.mark.parametrize(("cards", "sources"), [(Source.AMD, 1), (Source.AUTO, 2)])
async def test_amds_cards_are_found_with_or_without_nvidias_driver(
    tmp_path: Path, cards: Source, sources: int
) -> None:
    AmdTree(tmp_path).show(AmdGpu(pci="0000:01:00.0", node=1))
    async with open_origins(settings(tmp_path, cards)) as origins:
        found = await origins.reader.discover()
    assert [card.vendor for card in found.cards] == [Vendor.AMD]
    assert (found.problems, len(origins.sources)) == ((), sources)


async def test_a_node_with_neither_driver_has_a_problem(tmp_path: Path) -> None:
    async with open_origins(settings(tmp_path, Source.AUTO)) as origins:
        assert (await origins.reader.discover()).problems == (DRIVER_NOT_LOADED,)


@pytest.mark.parametrize(
    ("kmsg", "cards", "path"),
    [
        ("auto", Source.NVML, Path("/dev/kmsg")),
        ("auto", Source.FILE, None),
        ("none", Source.NVML, None),
        ("/run/log", Source.FILE, Path("/run/log")),
    ],
)
def test_a_simulated_node_reads_the_real_kernels_log_only_when_told(
    kmsg: str, cards: Source, path: Path | None
) -> None:
    assert Settings(node="n1", cards=cards, kmsg=kmsg).kernel_log == path
