"""A card in MIG mode on a real kubelet: each container has its own partition and finds no other."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sublet.contract import keys
from tests.cluster.proofs import decided
from tests.cluster.stage import CARDS_A_NODE, Namespace, Stage, card_uuid, container, pod
from tests.lab.node import Node

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

PROFILE = f"{keys.NVIDIA_MIG_PREFIX}1g.5gb"
ONE: dict[str, Any] = {PROFILE: 1}
LAST = CARDS_A_NODE - 1


async def totals(stage: Stage, node: Node) -> dict[str, str]:
    body = (await stage.plane.call("GET", f"/api/v1/nodes/{node.name}")).body
    found: dict[str, str] = body["status"]["allocatable"]
    return found


@pytest.fixture
async def divided(place: Namespace) -> AsyncIterator[Node]:
    """A node whose last card is in MIG mode with two partitions; whole again when the test ends."""
    stage = place.stage
    node = stage.nodes[0]
    capabilities = make_capabilities(stage)
    parts = [
        {"uuid": f"MIG-{node.name}-{gi}", "profile": "1g.5gb", "memoryMiB": 4864, "gi": gi, "ci": 0}
        for gi in (7, 8)
    ]
    stage.change_card(node, LAST, mig=True, partitions=parts)
    await stage.restart_agent(node, SUBLET_MIG_CAPABILITIES=str(capabilities))

    async def shows_partitions() -> bool:
        return (await totals(stage, node)).get(PROFILE) == "2"

    await stage.until(f"{node.name} shows its partitions", shows_partitions)
    yield node
    await place.delete_all()  # what a container holds counts as long as it does
    stage.write_inventory(node)
    await stage.restart_agent(node)

    async def is_whole() -> bool:
        shown = await totals(stage, node)
        return PROFILE not in shown and shown.get(keys.NVIDIA_GPU) == str(CARDS_A_NODE)

    await stage.until(f"{node.name} shows whole cards", is_whole)


def make_capabilities(stage: Stage) -> Path:
    """What the driver says of the instances' devices, and those devices (each really the null device)."""
    folder = stage.folder / "capabilities"
    caps = stage.dev_root / "dev/nvidia-caps"
    caps.mkdir(parents=True, exist_ok=True)
    for gi in (7, 8):
        for place, minor in ((f"gi{gi}", 10 * gi), (f"gi{gi}/ci0", 10 * gi + 1)):
            at = folder / f"gpu{LAST}" / "mig" / place
            at.mkdir(parents=True, exist_ok=True)
            (at / "access").write_text(f"DeviceFileMinor: {minor}\n")
            if not (caps / f"nvidia-cap{minor}").exists():
                os.mknod(caps / f"nvidia-cap{minor}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    return folder


async def test_containers_get_partitions_of_their_own(place: Namespace, divided: Node) -> None:
    asked = [container(name, **ONE) for name in ("one", "two")]
    await place.create(pod("mig", *asked, node=divided))
    found = decided(await place.running("mig"))
    seen = {name: (await place.environ("mig", name))[keys.ENV_NVIDIA_VISIBLE] for name in ("one", "two")}
    assert seen == {name: found[name][0]["card"] for name in seen}
    assert set(seen.values()) == {f"MIG-{divided.name}-{gi}" for gi in (7, 8)}
    for name, uuid in seen.items():
        gi = int(uuid.rpartition("-")[2])
        assert await place.devices("mig", name) == [f"nvidia{LAST}"]
        listed = await place.run("mig", name, "ls", "/dev/nvidia-caps")
        assert listed.split() == [f"nvidia-cap{10 * gi}", f"nvidia-cap{10 * gi + 1}"]
    await place.create(pod("late", container("main", **ONE), node=divided))
    await place.waits("late", "InUse")
    assert (await totals(place.stage, divided))[keys.NVIDIA_GPU] == str(LAST)
    assert card_uuid(divided, LAST) not in str(await place.get("mig"))
