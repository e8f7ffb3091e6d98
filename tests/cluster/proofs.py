"""What the tests read of a running pod to prove that decision, ledger and container agree."""

import json
from pathlib import Path
from typing import Any

from sublet.contract import keys
from tests.cluster.stage import Namespace


def decided(found: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Container -> grants, from the decision annotation, which must name this very pod and node."""
    document = json.loads(found["metadata"]["annotations"][keys.DECISION])
    assert document["uid"] == found["metadata"]["uid"]
    assert document["node"] == found["spec"]["nodeName"]
    containers: dict[str, list[dict[str, Any]]] = document["containers"]
    return containers


async def proves(place: Namespace, name: str, container_name: str = "main") -> list[str]:
    """Check that annotation, ledger, variables and device nodes of a container agree; its cards."""
    found = await place.running(name)
    grants = decided(found)[container_name]
    uuids = [grant["card"] for grant in grants]
    assert found["metadata"]["annotations"][keys.cards_annotation(container_name)] == ",".join(uuids)
    [node] = [one for one in place.stage.nodes if one.name == found["spec"]["nodeName"]]
    entry = await place.stage.ledger(node)
    assert entry is not None
    uid = found["metadata"]["uid"]
    granted = [g.grant.card for g in entry.grants if g.uid == uid and g.container == container_name]
    assert sorted(granted) == sorted(uuids)
    assert (await place.environ(name, container_name))[keys.ENV_NVIDIA_VISIBLE] == ",".join(uuids)
    devices = sorted(f"nvidia{grant['index']}" for grant in grants)
    assert await place.devices(name, container_name) == devices
    return uuids


def cgroups_of(uid: str) -> list[Path]:
    """The pod's cgroups that still hold a process."""
    return [
        one
        for one in Path("/sys/fs/cgroup").glob(f"**/pod{uid}/*")
        if one.is_dir() and (one / "cgroup.procs").exists() and (one / "cgroup.procs").read_text().strip()
    ]
