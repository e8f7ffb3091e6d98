"""AMD's cards as sysfs and the exporter show them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.empty_pb2 import Empty

from sublet.amd import metricssvc_pb2 as pb
from sublet.cards.amd import AmdCards
from sublet.cards.port import DRIVER_NOT_LOADED, MIG_UNSUPPORTED, Observation, ProcessUse
from sublet.cards.together import Together
from sublet.model.card import Card, Link, Vendor
from sublet.model.health import HealthState, SignalKind
from sublet.model.ids import CardId
from tests.amdtree.tree import PCIE, XGMI, AmdGpu, AmdTree

ONE = AmdGpu(pci="0000:0c:00.0", node=1, unique_id="9f1c2d3e4f506172", serial="692251", numa=0)
TWO = AmdGpu(pci="0001:22:00.0", node=10, unique_id="9f1c2d3e4f506173", numa=1)
A, B = CardId("GPU-9f1c2d3e4f506172"), CardId("GPU-9f1c2d3e4f506173")


@pytest.fixture
def tree(tmp_path: Path) -> AmdTree:
    return AmdTree(tmp_path / "sys")


def source_of(tree: AmdTree, *, exporter: Path = Path("/nowhere/socket")) -> AmdCards:
    return AmdCards(
        sysfs_root=tree.root, dev_root=tree.root.parent, exporter=exporter, poll_s=0.02, call_limit_s=2
    )


@pytest.fixture
async def source(tree: AmdTree) -> AsyncIterator[AmdCards]:
    made = source_of(tree)
    yield made
    await made.close()


async def cards(source: AmdCards) -> tuple[Card, ...]:
    return (await source.discover()).cards


async def polled(source: AmdCards, count: int) -> list[Observation]:
    """What is told until so many probes are."""
    found: list[Observation] = []
    async with asyncio.timeout(5):
        async for one in source.signals():
            found.append(one)
            if [each.kind for each in found].count(SignalKind.PROBE) == count:
                break
    return found


async def test_a_card_is_described_as_sysfs_has_it(tree: AmdTree, source: AmdCards) -> None:
    tree.show(ONE, TWO)
    found = await source.discover()
    first, second = found.cards
    assert first == Card(
        id=A,
        index=0,
        vendor=Vendor.AMD,
        model="AMD Instinct MI300X",
        memory_mib=196_592,
        numa=0,
        pci="0000:0c:00.0",
        serial="692251",
        minor=129,
    )
    assert (second.id, second.index, second.pci, second.serial) == (B, 1, "0001:22:00.0", None)
    assert (found.driver, found.problems) == ("6.10.5", ())


async def test_a_card_without_a_name_of_its_own_is_known_by_its_place(
    tree: AmdTree, source: AmdCards
) -> None:
    tree.show(AmdGpu(pci="0000:0c:00.0", node=1, model=""))
    [card] = await cards(source)
    assert (card.id, card.model) == ("amd-0000:0c:00.0", "AMD gfx942")


async def test_cards_are_joined_by_the_vendors_links_or_over_the_host(
    tree: AmdTree, source: AmdCards
) -> None:
    third = AmdGpu(pci="0002:00:00.0", node=20)
    tree.show(AmdGpu(pci=ONE.pci, node=1, unique_id=ONE.unique_id, links={10: XGMI, 20: PCIE}), TWO, third)
    first, second, last = await cards(source)
    assert first.links == {B: Link.NVLINK, last.id: Link.HOST}
    assert (second.links, last.links) == ({A: Link.NVLINK}, {A: Link.HOST})


@pytest.mark.parametrize("dotted", [False, True])
async def test_partitions_are_found_in_both_spellings_and_keep_their_card_from_being_whole(
    tmp_path: Path, dotted: bool
) -> None:
    tree = AmdTree(tmp_path / "sys", dotted=dotted)
    sliced: dict[str, Any] = {"compute": "CPX", "memory": "NPS4", "partitions": 7}
    tree.show(
        AmdGpu(pci=ONE.pci, node=1, unique_id=ONE.unique_id, **sliced),
        AmdGpu(pci=TWO.pci, node=10, unique_id=TWO.unique_id, **sliced),
    )
    source = source_of(tree)
    found = await source.discover()
    await source.close()
    assert [card.id for card in found.cards] == [A, B]
    assert [len(card.partitions) for card in found.cards] == [7, 7]
    assert found.cards[1].partitions[0].uuid == "amdgpu_xcp_7"
    assert found.cards[0].partitions[0].profile == "cpx_nps4"
    assert found.cards[0].partitions[0].memory_mib == 196_592 // 8
    assert found.problems == (MIG_UNSUPPORTED,)


async def test_a_partition_that_the_compute_driver_does_not_know_is_none(
    tree: AmdTree, source: AmdCards
) -> None:
    tree.show(ONE)
    (tree.root / "devices/platform/amdgpu_xcp_5/drm/renderD190").mkdir(parents=True)
    (tree.root / "devices/platform/amdgpu_xcp_6").mkdir()
    [card] = await cards(source)
    assert card.partitions == ()


async def test_a_card_is_given_with_its_own_nodes_and_the_compute_drivers(
    tree: AmdTree, source: AmdCards, tmp_path: Path
) -> None:
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name in ("kfd", "dri/card1", "dri/renderD129", "dri/renderD138"):
        (tmp_path / "dev" / name).touch()
    tree.show(ONE, TWO)
    await source.discover()
    nodes = [node.container_path for node in source.device_nodes(A)]
    assert nodes == ["/dev/dri/card1", "/dev/dri/renderD129", "/dev/kfd"]


async def test_who_holds_a_card_is_told_with_the_memory(tree: AmdTree, source: AmdCards) -> None:
    tree.show(ONE, TWO)
    tree.hold(41, ONE, 512)
    tree.hold(42, TWO, 0)
    await source.discover()
    assert await source.processes(A) == (ProcessUse(pid=41, used_mib=512),)
    assert await source.processes(B) == ()


async def test_a_node_without_the_driver_says_so(tree: AmdTree, source: AmdCards) -> None:
    found = await source.discover()
    assert (found.cards, found.problems) == ((), (DRIVER_NOT_LOADED,))


async def test_a_driver_that_is_unloaded_takes_no_card_away(tree: AmdTree, source: AmdCards) -> None:
    tree.show(ONE)
    await source.discover()
    (tree.root / "module").rename(tree.root / "gone")
    found = await source.discover()
    assert [(card.id, card.health) for card in found.cards] == [(A, HealthState.HEALTHY)]
    assert found.problems == (DRIVER_NOT_LOADED,)
    assert [one.value for one in await polled(source, 1)] == ["error"]


async def test_a_card_that_nothing_can_compute_on_is_unclear_and_not_lost(
    tree: AmdTree, source: AmdCards
) -> None:
    tree.show(AmdGpu(pci=ONE.pci, node=1, unique_id=ONE.unique_id, in_kfd=False))
    assert [one.value for one in await polled(source, 1)] == ["error"]


async def test_uncorrectable_errors_are_a_level_and_their_fall_is_a_reset(
    tree: AmdTree, source: AmdCards
) -> None:
    signals = source.signals()

    async def until(kind: SignalKind) -> Observation:
        async with asyncio.timeout(5):
            while (one := await anext(signals)).kind is not kind:
                pass
        return one

    def errors(count: int) -> AmdGpu:
        return AmdGpu(pci=ONE.pci, node=1, unique_id=ONE.unique_id, uncorrectable=count)

    tree.show(errors(2))
    level = await until(SignalKind.LEVEL)
    assert (level.name, level.value) == ("ecc_uncorrectable", "2")
    tree.fail(ONE.pci, errors=0)
    await until(SignalKind.RESET)
    assert (await until(SignalKind.LEVEL)).value == "0"
    await signals.aclose()


@asynccontextmanager
async def exporter(socket: Path, states: Mapping[str, str]) -> AsyncIterator[None]:
    """AMD's exporter, which knows these cards."""

    async def answer(_: Empty, _context: object) -> pb.GPUStateResponse:
        response = pb.GPUStateResponse()
        for pci, health in states.items():
            response.GPUState.add(Device=pci, Health=health)
        return response

    handler = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=Empty.FromString,
        response_serializer=pb.GPUStateResponse.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("metricssvc.MetricsService", {"List": handler}),)
    )
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


async def test_the_exporters_word_is_a_level_and_its_silence_about_a_card_makes_that_unknown(
    tree: AmdTree, tmp_path: Path
) -> None:
    third = AmdGpu(pci="0002:00:00.0", node=20, unique_id="77")
    tree.show(ONE, TWO, third)
    socket = tmp_path / "socket"
    source = source_of(tree, exporter=socket)
    async with exporter(socket, {ONE.pci: "unhealthy", third.pci: "healthy"}):
        found = await polled(source, 3)
    await source.close()
    levels = {one.card: one.value for one in found if one.kind is SignalKind.LEVEL}
    probes = {one.card: (one.value, one.name) for one in found if one.kind is SignalKind.PROBE}
    assert levels == {A: "true", CardId("GPU-77"): "false"}
    assert probes == {A: ("ok", ""), B: ("error", "exporter"), CardId("GPU-77"): ("ok", "")}


async def test_an_exporter_that_does_not_answer_says_nothing(tree: AmdTree, tmp_path: Path) -> None:
    (tmp_path / "socket").touch()
    tree.show(ONE)
    source = source_of(tree, exporter=tmp_path / "socket")
    found = await polled(source, 1)
    await source.close()
    assert [one.value for one in found if one.kind is SignalKind.PROBE] == ["ok"]


async def test_the_cards_of_two_drivers_are_those_of_one_node(tmp_path: Path) -> None:
    trees = [AmdTree(tmp_path / name) for name in ("a", "b", "c")]
    trees[0].show(ONE)
    trees[1].show(TWO)
    sources = [source_of(tree) for tree in trees]
    node = Together(sources, poll_s=0.02)
    found = await node.discover()
    assert [(card.id, card.index) for card in found.cards] == [(A, 0), (B, 1)]
    assert (found.problems, found.warnings) == ((), ())
    assert (await node.processes(B), await node.processes(CardId("GPU-x"))) == ((), None)
    trees[2].show(AmdGpu(pci="0002:00:00.0", node=20))
    changes = node.changes()
    async with asyncio.timeout(5):
        await anext(changes)
        await anext(changes)
    assert len((await node.discover()).cards) == 3
    await node.close()
    assert [one async for one in changes] == []


async def test_a_node_without_any_driver_says_so(tmp_path: Path) -> None:
    node = Together([source_of(AmdTree(tmp_path / name)) for name in ("a", "b")], poll_s=1)
    assert (await node.discover()).problems == (DRIVER_NOT_LOADED,)
    await node.close()
