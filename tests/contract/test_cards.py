"""What every source of cards does, whether a driver or a file is behind it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from sublet.cards.amd import AmdCards
from sublet.cards.file import FileCards
from sublet.cards.nvml import NvmlCards
from sublet.cards.port import MIG_UNSUPPORTED, CardSource, Discovery, Observation
from sublet.model.card import Link, Partition
from sublet.model.errors import NotFound
from sublet.model.health import HealthState, SignalKind
from sublet.model.ids import CardId, NodeName
from tests.amdtree.tree import XGMI, AmdGpu, AmdTree
from tests.eventually import eventually
from tests.fakenvml.build import fake_nvml
from tests.fakenvml.control import XID, FakeCard, FakeInstance

POLL_S = 0.02
A, B, C = CardId("GPU-a"), CardId("GPU-b"), CardId("GPU-c")
SMALL = Partition(uuid="MIG-1", profile="1g.5gb", memory_mib=4864, gi=7, ci=0, slices=1)
LARGE = Partition(uuid="MIG-2", profile="3g.20gb", memory_mib=19968, gi=1, ci=0, slices=3)


class Rig(Protocol):
    """A source, and the hardware behind it: cards in slots 0 to 2, of which some are plugged in."""

    source: CardSource
    nodes_of_b: tuple[str, str]
    """Below /dev: its own, and one that all share."""

    def plug(self, *cards: CardId, mig: bool = False) -> None: ...

    def replace_b(self, card: CardId) -> None:
        """Put `card` into the slot of `B`; `A` stays."""
        ...

    def break_card(self, card: CardId) -> tuple[SignalKind, int, str]:
        """Something goes wrong with it: kind, code and name of what is to be told."""
        ...

    async def listens(self) -> None:
        """Return once an error of a card would not be missed."""
        ...


class MigRig(Rig, Protocol):
    """A rig whose cards can be partitioned into MIG instances."""

    def partition(self, card: CardId, *parts: Partition) -> None:
        """Plug in `card` alone, in MIG mode, with these partitions."""
        ...


class FileRig:
    nodes_of_b = ("nvidia1", "nvidiactl")

    def __init__(self, folder: Path) -> None:
        self._inventory, self._signals = folder / "inventory.yaml", folder / "signals"
        self._inventory.write_text("nodes: [{name: n1}]")
        self.source = FileCards(
            node=NodeName("n1"),
            inventory=self._inventory,
            signals=self._signals,
            dev_root=folder,
            capabilities=folder / "capabilities",
            poll_s=POLL_S,
        )

    def partition(self, card: CardId, *parts: Partition) -> None:
        entries = [
            {
                "uuid": p.uuid,
                "profile": p.profile,
                "memoryMiB": p.memory_mib,
                "gi": p.gi,
                "ci": p.ci,
                "slices": p.slices,
            }
            for p in parts
        ]
        self._write([self._entry(0, card, True) | {"partitions": entries}])

    def plug(self, *cards: CardId, mig: bool = False) -> None:
        self._write([self._entry(slot, card, mig) for slot, card in enumerate((A, B, C)) if card in cards])

    def replace_b(self, card: CardId) -> None:
        self._write([self._entry(0, A, False), self._entry(1, card, False)])

    def _write(self, entries: list[dict[str, Any]]) -> None:
        fresh = self._inventory.with_suffix(".new")
        fresh.write_text(yaml.safe_dump({"nodes": [{"name": "n1", "cards": entries}]}))
        fresh.replace(self._inventory)

    def _entry(self, slot: int, card: CardId, mig: bool) -> dict[str, Any]:
        return {
            "uuid": str(card),
            "index": slot,
            "memoryMiB": 1024,
            "model": "NVIDIA T4",
            "serial": f"s{slot}",
            "pci": f"0000:0{slot}:00.0",
            "minor": slot,
            "mig": mig,
            "links": {str(other): "nvlink" for other in (A, B) if card in (A, B) and other != card},
        }

    def break_card(self, card: CardId) -> tuple[SignalKind, int, str]:
        with self._signals.open("a") as file:
            file.write(json.dumps({"kind": "xid", "card": card, "code": 79, "source": "nvml"}) + "\n")
        return SignalKind.XID, 79, ""

    async def listens(self) -> None:
        return


class NvmlRig:
    nodes_of_b = ("nvidia1", "nvidiactl")

    def __init__(self, folder: Path) -> None:
        self._fake = fake_nvml(folder)
        library = str(self._fake.library)
        self.source = NvmlCards(
            library=library,
            dev_root=folder,
            sysfs_root=folder,
            capabilities=folder / "capabilities",
            poll_s=POLL_S,
            event_slice_ms=50,
        )

    def partition(self, card: CardId, *parts: Partition) -> None:
        """The driver leaves holes where instances were destroyed."""
        instances = tuple(
            FakeInstance(
                uuid=one.uuid,
                name=f"NVIDIA T4 MIG {one.profile}",
                place=2 * place + 1,
                gi=one.gi or 0,
                ci=one.ci or 0,
                slices=one.slices or 0,
                compute_slices=one.slices or 0,
                memory_mib=one.memory_mib,
            )
            for place, one in enumerate(parts)
        )
        self._fake.show(replace(self._card(0, card, True), instances=instances))

    def plug(self, *cards: CardId, mig: bool = False) -> None:
        self._fake.show(
            *(self._card(slot, card, mig) for slot, card in enumerate((A, B, C)) if card in cards),
        )

    def _card(self, slot: int, card: CardId, mig: bool) -> FakeCard:
        return FakeCard(
            uuid=card,
            memory_mib=1024,
            name="NVIDIA T4",
            serial=f"s{slot}",
            pci=f"0:{slot}:0",
            minor=slot,
            mig=int(mig),
            links=(f"0:{1 - slot}:0",) if slot < 2 else (),
        )

    def break_card(self, card: CardId) -> tuple[SignalKind, int, str]:
        self._fake.event(card, XID, 79)
        return SignalKind.XID, 79, ""

    def replace_b(self, card: CardId) -> None:
        self._fake.show(self._card(0, A, False), self._card(1, card, False))

    async def listens(self) -> None:
        await eventually(lambda: self._fake.calls("waits") > 0)


class AmdRig:
    nodes_of_b = ("dri/renderD130", "kfd")

    def __init__(self, folder: Path) -> None:
        self._tree = AmdTree(folder / "sys")
        self._tree.show()
        self.source = AmdCards(
            sysfs_root=self._tree.root, dev_root=folder, exporter=folder / "none", poll_s=POLL_S
        )

    def plug(self, *cards: CardId, mig: bool = False) -> None:
        self._tree.show(
            *(self._card(slot, card, mig) for slot, card in enumerate((A, B, C)) if card in cards)
        )

    def _card(self, slot: int, card: CardId, mig: bool) -> AmdGpu:
        return AmdGpu(
            pci=f"0000:0{slot}:00.0",
            node=slot + 1,
            unique_id=card.removeprefix("GPU-"),
            model="NVIDIA T4",
            serial=f"s{slot}",
            memory_mib=1024,
            compute="CPX" if mig else "SPX",
            links={2 - slot: XGMI} if slot < 2 else {},
        )

    def break_card(self, card: CardId) -> tuple[SignalKind, int, str]:
        self._tree.fail(f"0000:0{(A, B, C).index(card)}:00.0", errors=1)
        return SignalKind.LEVEL, 0, "ecc_uncorrectable"

    def replace_b(self, card: CardId) -> None:
        self._tree.show(self._card(0, A, False), self._card(1, card, False))

    async def listens(self) -> None:
        return


@pytest.fixture(params=[FileRig, NvmlRig, AmdRig])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = request.param(tmp_path)
    yield made
    await made.source.close()


class Listener:
    """Collects what a source observes, until a wanted thing is among it."""

    def __init__(self, source: CardSource) -> None:
        self._signals = source.signals()

    async def until(self, card: CardId, kind: SignalKind, value: str = "") -> Observation:
        async with asyncio.timeout(5):
            async for one in self._signals:
                if (one.card, one.kind) == (card, kind) and one.value in (
                    value,
                    one.value if not value else "",
                ):
                    return one
        raise AssertionError("the signals ended")


async def until(source: CardSource, wanted: Any) -> Discovery:
    async with asyncio.timeout(5):
        async for _ in source.changes():
            found = await source.discover()
            if wanted(found):
                return found
    raise AssertionError("the changes ended")


def health(found: Discovery) -> dict[CardId, HealthState]:
    return {card.id: card.health for card in found.cards}


async def test_a_card_is_described_alike_whoever_reads_it(rig: Rig) -> None:
    rig.plug(A, B)
    first, second = (await rig.source.discover()).cards
    assert (first.id, first.index, first.memory_mib) == (A, 0, 1024)
    assert (second.model, second.serial, second.pci) == ("NVIDIA T4", "s1", "0000:01:00.0")


async def test_two_cards_that_are_joined_know_it_of_each_other(rig: Rig) -> None:
    rig.plug(A, B, C)
    first, second, third = (await rig.source.discover()).cards
    assert (first.links[B], second.links[A]) == (Link.NVLINK, Link.NVLINK)
    assert third.links == {}


async def test_a_node_without_cards_has_an_empty_inventory(rig: Rig) -> None:
    assert (await rig.source.discover()).cards == ()


async def test_the_first_change_comes_at_once(rig: Rig) -> None:
    async with asyncio.timeout(5):
        await anext(rig.source.changes())


async def test_a_card_that_is_plugged_in_is_noticed(rig: Rig) -> None:
    rig.plug(A)
    changes = rig.source.changes()
    await anext(changes)
    assert len((await rig.source.discover()).cards) == 1
    rig.plug(A, B)
    async with asyncio.timeout(5):
        await anext(changes)
    assert [card.id for card in (await rig.source.discover()).cards] == [A, B]


async def test_a_card_that_vanishes_stays_as_lost_and_the_others_stay_well(rig: Rig) -> None:
    rig.plug(A, B, C)
    await rig.source.discover()
    rig.plug(A, C)
    found = await until(rig.source, lambda found: HealthState.LOST in health(found).values())
    assert health(found) == {A: HealthState.HEALTHY, B: HealthState.LOST, C: HealthState.HEALTHY}
    assert sorted(card.index for card in found.cards) == [0, 1, 2]


async def test_a_lost_card_that_comes_back_is_well(rig: Rig) -> None:
    rig.plug(A, B)
    await rig.source.discover()
    rig.plug(A)
    await until(rig.source, lambda found: found.cards[1].health is HealthState.LOST)
    rig.plug(A, B)
    await until(rig.source, lambda found: found.cards[1].health is HealthState.HEALTHY)


async def test_a_new_card_in_the_place_of_an_old_one_replaces_it(rig: Rig) -> None:
    rig.plug(A, B)
    await rig.source.discover()
    replacement = CardId("GPU-new")
    rig.replace_b(replacement)
    found = await until(rig.source, lambda found: found.cards[-1].id == replacement)
    assert [card.id for card in found.cards] == [A, replacement]


async def test_a_divided_card_that_nobody_can_ask_for_keeps_its_node_from_being_managed(
    tmp_path: Path,
) -> None:
    rig = AmdRig(tmp_path)
    rig.plug(A, mig=True)
    found = await rig.source.discover()
    assert found.cards[0].mig
    assert found.problems == (MIG_UNSUPPORTED,)
    await rig.source.close()


# -- MIG


@pytest.fixture(params=[FileRig, NvmlRig])
async def mig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MigRig]:
    made: MigRig = request.param(tmp_path)
    yield made
    await made.source.close()


async def test_a_card_in_mig_mode_shows_the_partitions_that_exist(mig: MigRig) -> None:
    mig.partition(A, SMALL, LARGE)
    found = await mig.source.discover()
    assert found.cards[0].partitions == (SMALL, LARGE)
    assert (found.problems, found.warnings) == ((), ())
    assert [(one.id, one.profile, one.parent) for one in found.cards[0].offered] == [
        ("MIG-1", "1g.5gb", A),
        ("MIG-2", "3g.20gb", A),
    ]


async def test_a_card_in_mig_mode_without_partitions_offers_nothing_and_says_why(mig: MigRig) -> None:
    mig.plug(A, mig=True)
    found = await mig.source.discover()
    assert (found.cards[0].offered, found.problems) == ((), ())
    assert found.warnings == (f"card {A} is in MIG mode and has no partitions: nothing of it is offered",)


async def test_partitions_come_and_go_while_the_source_is_open(mig: MigRig) -> None:
    def parts(*wanted: Partition) -> Callable[[Discovery], bool]:
        return lambda found: [card.partitions for card in found.cards] == [wanted]

    mig.partition(A, SMALL)
    await mig.source.discover()
    mig.partition(A, LARGE)
    await until(mig.source, parts(LARGE))
    mig.partition(A)
    await until(mig.source, parts())


async def test_a_partition_comes_with_its_cards_node_and_its_own_capabilities(
    mig: MigRig, tmp_path: Path
) -> None:
    (tmp_path / "dev/nvidia-caps").mkdir(parents=True)
    for name in ("nvidia0", "nvidiactl", *(f"nvidia-caps/nvidia-cap{number}" for number in range(60, 70))):
        (tmp_path / "dev" / name).touch()
    for folder, minor in (("gi7", 66), ("gi7/ci0", 67), ("gi1", 60), ("gi1/ci0", 61)):
        at = tmp_path / "capabilities/gpu0/mig" / folder
        at.mkdir(parents=True)
        (at / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    mig.partition(A, LARGE, SMALL)
    await mig.source.discover()
    nodes = [node.container_path for node in mig.source.device_nodes(CardId(SMALL.uuid))]
    caps = ["/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67"]
    assert nodes == ["/dev/nvidia0", *caps, "/dev/nvidiactl"]


async def test_a_partition_has_processes_of_its_own_and_one_that_is_gone_cannot_be_read(mig: MigRig) -> None:
    mig.partition(A, SMALL)
    await mig.source.discover()
    assert await mig.source.processes(CardId(SMALL.uuid)) == ()
    assert await mig.source.processes(CardId(LARGE.uuid)) is None
    with pytest.raises(NotFound):
        mig.source.device_nodes(CardId(LARGE.uuid))


# -- signals


async def test_a_card_is_introduced_with_its_identity(rig: Rig) -> None:
    rig.plug(A)
    seen = await Listener(rig.source).until(A, SignalKind.CARD)
    assert (seen.serial, seen.pci, seen.model) == ("s0", "0000:00:00.0", "NVIDIA T4")


async def test_an_error_of_a_card_is_delivered(rig: Rig) -> None:
    rig.plug(A, B)
    listener = Listener(rig.source)
    await listener.until(B, SignalKind.CARD)
    await rig.listens()
    kind, code, name = rig.break_card(B)
    error = await listener.until(B, kind)
    assert (error.code, error.name, error.gi) == (code, name, None)


async def test_a_lost_card_is_told_by_a_probe_and_so_is_its_return(rig: Rig) -> None:
    rig.plug(A, B)
    listener = Listener(rig.source)
    await listener.until(B, SignalKind.CARD)
    rig.plug(A)
    await listener.until(B, SignalKind.PROBE, "lost")
    rig.plug(A, B)
    await listener.until(B, SignalKind.PROBE, "ok")


async def test_only_device_nodes_that_are_there_are_given_to_a_container(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "dri/renderD129", "dri/renderD130", "kfd"):
        (tmp_path / "dev" / name).touch()
    rig.plug(A, B)
    await rig.source.discover()
    nodes = rig.source.device_nodes(B)
    assert [node.container_path for node in nodes] == [f"/dev/{name}" for name in rig.nodes_of_b]
    assert nodes[0].host_path == str(tmp_path / "dev" / rig.nodes_of_b[0])


async def test_a_card_that_nobody_saw_has_no_device_nodes(rig: Rig) -> None:
    with pytest.raises(NotFound):
        rig.source.device_nodes(A)


async def test_an_idle_card_has_no_processes_and_an_unknown_one_cannot_be_read(rig: Rig) -> None:
    rig.plug(A)
    await rig.source.discover()
    assert await rig.source.processes(A) == ()
    assert await rig.source.processes(B) is None


async def test_closing_ends_every_iteration_and_leaves_no_thread(rig: Rig) -> None:
    rig.plug(A)
    before = set(threading.enumerate())
    changes, signals = rig.source.changes(), rig.source.signals()
    await anext(changes)
    await anext(signals)
    await rig.source.close()
    async with asyncio.timeout(5):
        assert [one async for one in changes] == []
        async for _ in signals:
            pass
    started = [one for one in threading.enumerate() if one not in before and one.name.startswith("nvml")]
    await eventually(lambda: not any(one.is_alive() for one in started))


async def test_closing_twice_is_as_good_as_once(rig: Rig) -> None:
    await rig.source.close()
    await rig.source.close()
