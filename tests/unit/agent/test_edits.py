"""The CDI spec of a slot, and what a vendor's spec adds to it."""

import json
from typing import Any

from sublet_agent.core.edits import NOTHING, Edits, Node, cdi_device, cdi_spec, vendor_edits

from sublet.contract import keys
from tests.unit.agent.words import SLOT

CARD_0 = Node(host_path="/root/dev/nvidia0", container_path="/dev/nvidia0")
CONTROL = Node(host_path="/root/dev/nvidiactl", container_path="/dev/nvidiactl")


def device(name: str, *paths: str, **edits: Any) -> dict[str, Any]:
    return {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]} | edits}


def spec(*devices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": list(devices)} | more


def test_a_spec_has_the_lowest_version_that_its_fields_need() -> None:
    document = json.loads(cdi_spec(SLOT, Edits(env={"A": "1"}, nodes=(CARD_0,))))
    assert document == {
        "cdiVersion": "0.5.0",
        "kind": keys.CDI_KIND,
        "devices": [
            {
                "name": SLOT,
                "containerEdits": {
                    "env": ["A=1"],
                    "deviceNodes": [
                        {"path": "/dev/nvidia0", "hostPath": "/root/dev/nvidia0", "permissions": "rw"}
                    ],
                },
            }
        ],
    }
    assert cdi_device(SLOT) == f"{keys.CDI_KIND}={SLOT}"


def test_a_slot_without_a_holder_has_one_edit_since_a_runtime_refuses_none() -> None:
    [one] = json.loads(cdi_spec(SLOT, NOTHING))["devices"]
    assert one["containerEdits"] == {"env": [f"{keys.ENV_CARDS}="]}


def test_a_vendors_device_is_found_by_its_node_and_not_by_its_name() -> None:
    specs = [spec(device("0", "/dev/nvidia1", env=["N=1"]), device("1", "/dev/nvidia0", env=["N=0"]))]
    found = vendor_edits(specs, [CARD_0, CONTROL])
    assert found is not None
    assert found.edits["env"] == ("N=0",)


def test_a_device_of_all_cards_is_never_taken_for_one_of_them() -> None:
    both = device("all", "/dev/nvidia0", "/dev/nvidia1", env=["N=all"])
    specs = [spec(both, device("0", "/dev/nvidia0", env=["N=0"]), device("1", "/dev/nvidia1", env=["N=1"]))]
    found = vendor_edits(specs, [CARD_0])
    assert found is not None
    assert found.edits["env"] == ("N=0",)


def test_a_shared_control_node_finds_no_device() -> None:
    assert vendor_edits([spec(device("1", "/dev/nvidia1", "/dev/nvidiactl"))], [CARD_0, CONTROL]) is None


def test_mounts_of_the_whole_spec_and_its_version_come_along() -> None:
    mount = {"hostPath": "/lib/libcuda.so", "containerPath": "/lib/libcuda.so"}
    specs = [spec(device("0", "/dev/nvidia0"), cdiVersion="0.7.0", containerEdits={"mounts": [mount]})]
    found = vendor_edits(specs, [CARD_0])
    document = json.loads(cdi_spec(SLOT, Edits(env={"A": "1"}, nodes=(CARD_0,)), found))
    assert document["cdiVersion"] == "0.7.0"
    [one] = document["devices"]
    assert one["containerEdits"]["mounts"] == [mount]
    assert len(one["containerEdits"]["deviceNodes"]) == 1


def test_our_environment_wins_over_the_vendors() -> None:
    found = vendor_edits([spec(device("0", "/dev/nvidia0", env=["A=theirs", "B=theirs"]))], [CARD_0])
    [one] = json.loads(cdi_spec(SLOT, Edits(env={"A": "ours"}, nodes=(CARD_0,)), found))["devices"]
    assert one["containerEdits"]["env"] == ["B=theirs", "A=ours"]


def caps(*numbers: int) -> list[str]:
    return ["/dev/nvidia0", *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in numbers)]


def of_partition(*numbers: int) -> list[Node]:
    return [CARD_0, *(Node(host_path=path, container_path=path) for path in caps(*numbers)[1:])]


def test_a_partition_gets_what_its_own_device_brings_and_nothing_of_its_siblings() -> None:
    one, two = device("0:0", *caps(21, 22), env=["P=1"]), device("0:1", *caps(30, 31), env=["P=2"])
    every = device("all", *caps(21, 22, 30, 31), env=["P=all"])
    for devices in ((one, two, every), (every, two, one), (two, device("0", "/dev/nvidia0", env=["P=2"]))):
        found = vendor_edits([spec(*devices)], of_partition(30, 31))
        assert found is not None
        assert found.edits["env"] == ("P=2",)


def test_a_vendors_spec_of_before_the_card_was_divided_anew_opens_no_other_partition() -> None:
    old = spec(device("0:0", *caps(21, 22)), device("all", *caps(21, 22)))
    assert vendor_edits([old], of_partition(30, 31)) is None
    assert vendor_edits([old], [CARD_0]) is None
