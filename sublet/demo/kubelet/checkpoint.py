"""The kubelet's device checkpoint as a file: what an agent learns identities from."""

import base64
import json
import zlib
from pathlib import Path

from sublet.demo.kubelet.devices import Allocation, DeviceTable

NAME = "kubelet_internal_checkpoint"
_NO_NUMA = "-1"


def write_checkpoint(path: Path, table: DeviceTable) -> None:
    data = {
        "PodDeviceEntries": [
            {
                "PodUID": uid,
                "ContainerName": container,
                "ResourceName": resource,
                "DeviceIDs": {_NO_NUMA: list(allocation.ids)},
                "AllocResp": base64.b64encode(allocation.response).decode(),
            }
            for uid, containers in table.pods.items()
            for container, resources in containers.items()
            for resource, allocation in resources.items()
        ],
        "RegisteredDevices": {resource: sorted(ids) for resource, ids in table.healthy.items()},
    }
    text = json.dumps({"Data": data, "Checksum": zlib.crc32(json.dumps(data).encode())})
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text)
    temporary.replace(path)


def read_checkpoint(path: Path, table: DeviceTable) -> None:
    """Take up what a kubelet before this one had given out; nothing where there is no file."""
    if not path.exists():
        return
    data = json.loads(path.read_text())["Data"]
    for resource in data["RegisteredDevices"]:
        table.known_again(resource)
    for entry in data["PodDeviceEntries"]:
        ids = [one for several in entry["DeviceIDs"].values() for one in several]
        allocation = Allocation(tuple(ids), base64.b64decode(entry["AllocResp"]))
        table.give(entry["PodUID"], entry["ContainerName"], entry["ResourceName"], allocation)
