"""Whose slot it is, from the checkpoint and PodResources."""

import json

import pytest
from sublet_agent.core.cgroup import KUBEPODS, pod_of_directory, pod_of_process
from sublet_agent.core.checkpoint import read_checkpoint
from sublet_agent.core.identity import Identity, Unclear, identify
from sublet_agent.core.observation import Holding, Listing

from sublet.contract import keys
from sublet.model.errors import BadRequest
from sublet.model.ids import PodRef, PodUid
from tests.unit.agent.words import POD, SLOT, UID, holding, listing

OTHER = PodUid("22222222-bbbb")


def test_a_slot_of_one_container_is_that_containers() -> None:
    who = identify(SLOT, [holding(0), holding(1, OTHER)], [listing(0)])
    assert who == Identity(
        slot=SLOT, uid=UID, containers=frozenset({"main"}), pod=POD, listed=frozenset({"main"})
    )


def test_init_containers_share_a_slot_with_their_heir() -> None:
    who = identify(SLOT, [holding(0, container="i"), holding(0)], [listing(0)])
    assert isinstance(who, Identity)
    assert who.containers == {"i", "main"}
    assert who.listed == frozenset({"main"})


def test_an_init_container_alone_is_listed_nowhere() -> None:
    who = identify(SLOT, [holding(0, container="i")], [])
    assert isinstance(who, Identity)
    assert (who.pod, who.listed) == (None, frozenset())


@pytest.mark.parametrize(
    ("holdings", "listings", "reason"),
    [
        ([], [listing(0)], "names no holder"),
        ([holding(0), holding(0, OTHER)], [listing(0)], "checkpoint gives slot-000 to several pods"),
        ([holding(0)], [listing(0), listing(0, PodRef("ns", "q"))], "PodResources gives slot-000 to several"),
        ([holding(0)], [listing(0, container="x")], "does not name"),
        (
            [holding(0), holding(0, container="b")],
            [listing(0), listing(0, container="b")],
            "several containers",
        ),
    ],
)
def test_two_sources_that_do_not_agree_are_unclear(
    holdings: list[Holding], listings: list[Listing], reason: str
) -> None:
    who = identify(SLOT, holdings, listings)
    assert isinstance(who, Unclear)
    assert reason in who.reason


def entry(ids: object, resource: str = keys.SLOT) -> dict[str, object]:
    return {
        "PodUID": UID,
        "ContainerName": "main",
        "ResourceName": resource,
        "DeviceIDs": ids,
        "AllocResp": "",
    }


def checkpoint(*entries: object, served: object = None) -> str:
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": served}, "Checksum": 1})


@pytest.mark.parametrize("ids", [{"-1": [SLOT]}, {"0": [SLOT], "1": []}, [SLOT]])
def test_device_ids_are_read_by_numa_node_and_as_a_plain_list(ids: object) -> None:
    assert read_checkpoint(checkpoint(entry(ids))).holdings == (holding(0),)


def test_other_resources_are_no_holdings_and_are_counted_as_served() -> None:
    found = read_checkpoint(
        checkpoint(entry({"0": ["x"]}, keys.NVIDIA_GPU), served={keys.NVIDIA_GPU: ["x", "y"], "a/b": None})
    )
    assert found.holdings == ()
    assert found.served == {keys.NVIDIA_GPU: 2, "a/b": 0}


def test_an_empty_checkpoint_has_nulls() -> None:
    assert read_checkpoint('{"Data": {"PodDeviceEntries": null, "RegisteredDevices": {}}}').holdings == ()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"Data": {}}', checkpoint({"PodUID": 1}), checkpoint(entry(3))]
)
def test_half_a_checkpoint_is_not_read_as_an_empty_one(text: str) -> None:
    with pytest.raises(BadRequest):
        read_checkpoint(text)


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        ("pod1b2c-3d4e-5f60", "1b2c-3d4e-5f60"),
        ("kubepods-burstable-pod1b2c_3d4e_5f60.slice", "1b2c-3d4e-5f60"),
        ("kubepods-pod1b2c_3d4e_5f60.slice", "1b2c-3d4e-5f60"),
        ("kubelet-kubepods-besteffort-pod1b2c_3d4e_5f60.slice", "1b2c-3d4e-5f60"),
        ("burstable", None),
        ("podman", None),
        ("kubepods-burstable.slice", None),
    ],
)
def test_both_spellings_of_a_pods_cgroup_are_read(name: str, uid: str | None) -> None:
    assert pod_of_directory(name) == uid


def test_a_process_belongs_to_the_pod_of_any_of_its_cgroups() -> None:
    v1 = "4:memory:/kubepods/burstable/pod1b2c-3d4e-5f60/abc\n3:cpu:/\n"
    v2 = "0::/kubepods.slice/kubepods-pod1b2c_3d4e_5f60.slice/cri-containerd-abc.scope\n"
    assert {pod_of_process(v1), pod_of_process(v2)} == {"1b2c-3d4e-5f60"}
    assert pod_of_process("0::/system.slice/sshd.service\n") is None


@pytest.mark.parametrize("name", ["kubepods", "kubepods.slice", "kubelet-kubepods.slice", "k8s-kubepods"])
def test_the_kubelets_own_cgroup_is_known_by_name(name: str) -> None:
    assert KUBEPODS.fullmatch(name)
