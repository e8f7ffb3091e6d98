"""The stand-in's device manager counts, hands on and refuses as the kubelet's does."""

import json
from pathlib import Path

import pytest

from sublet.demo.kubelet.cdi import resolve
from sublet.demo.kubelet.checkpoint import NAME, read_checkpoint, write_checkpoint
from sublet.demo.kubelet.devices import Allocation, DeviceTable
from sublet.demo.kubelet.spec import AdmissionRefused, ContainerSpec, PodSpec, StartRefused

RESOURCE = "example.dev/slot"


def container(name: str, count: int = 1, *, restartable: bool = False) -> ContainerSpec:
    return ContainerSpec(name=name, devices={RESOURCE: count}, restartable=restartable)


def pod(*containers: ContainerSpec, init: tuple[ContainerSpec, ...] = (), uid: str = "u1") -> PodSpec:
    return PodSpec(uid=uid, name="p", init=init, containers=containers)


def table(healthy: int = 3, unhealthy: int = 0) -> DeviceTable:
    one = DeviceTable()
    states = {f"d{number}": number < healthy for number in range(healthy + unhealthy)}
    one.listed(RESOURCE, states)
    return one


def give_all(one: DeviceTable, spec: PodSpec) -> dict[str, tuple[str, ...]]:
    given = {}
    for found in spec.every():
        ids = one.choose(spec, found, RESOURCE)
        assert ids is not None
        one.give(spec.uid, found.name, RESOURCE, Allocation(ids, b""))
        given[found.name] = ids
    return given


def test_capacity_counts_all_and_allocatable_the_healthy_ones() -> None:
    one = table(healthy=3, unhealthy=1)
    assert (one.capacity()[RESOURCE], one.allocatable()[RESOURCE]) == (4, 3)
    one.stopped(RESOURCE)
    assert (one.capacity()[RESOURCE], one.allocatable()[RESOURCE]) == (4, 0)


def test_an_init_container_hands_its_device_to_the_next_one_that_asks_only() -> None:
    given = give_all(table(), pod(container("a"), container("b"), init=(container("i1"), container("i2"))))
    assert given == {"i1": ("d0",), "i2": ("d0",), "a": ("d0",), "b": ("d1",)}


def test_a_sidecar_keeps_what_it_inherited() -> None:
    init = (container("i"), container("side", restartable=True), container("i2"))
    given = give_all(table(), pod(container("a"), init=init))
    assert given == {"i": ("d0",), "side": ("d0",), "i2": ("d1",), "a": ("d1",)}


def test_too_few_devices_are_refused_in_the_kubelets_words() -> None:
    with pytest.raises(AdmissionRefused, match="Requested: 4, Available: 3"):
        table().choose(pod(container("a", 4)), container("a", 4), RESOURCE)
    with pytest.raises(AdmissionRefused, match="unregistered"):
        DeviceTable().choose(pod(container("a")), container("a"), RESOURCE)


def test_devices_of_ended_pods_come_free_when_somebody_asks() -> None:
    one = table(healthy=1)
    give_all(one, pod(container("a")))
    with pytest.raises(AdmissionRefused):
        one.choose(pod(container("a"), uid="u2"), container("a"), RESOURCE)
    one.keep_only(["u2"])
    assert one.choose(pod(container("a"), uid="u2"), container("a"), RESOURCE) == ("d0",)


def test_after_a_restart_a_pod_keeps_its_devices_or_fails(tmp_path: Path) -> None:
    before = table()
    give_all(before, pod(container("a")))
    write_checkpoint(tmp_path / NAME, before)
    after = DeviceTable()
    read_checkpoint(tmp_path / NAME, after)
    assert after.capacity() == {RESOURCE: 0}
    with pytest.raises(AdmissionRefused, match="no healthy devices present"):
        after.choose(pod(container("a")), container("a"), RESOURCE)
    after.listed(RESOURCE, {"d0": False, "d1": True})
    with pytest.raises(AdmissionRefused, match="no longer healthy"):
        after.choose(pod(container("a")), container("a"), RESOURCE)
    after.listed(RESOURCE, {"d0": True})
    assert after.choose(pod(container("a")), container("a"), RESOURCE) is None


def spec(folder: Path, edits: dict[str, object]) -> None:
    document = {"kind": "v.dev/c", "devices": [{"name": "x", "containerEdits": edits}]}
    (folder / "x.json").write_text(json.dumps(document))


def test_a_cdi_name_resolves_to_env_and_nodes(tmp_path: Path) -> None:
    spec(tmp_path, {"env": ["A=1=2"], "deviceNodes": [{"path": "/dev/a", "hostPath": "/host/a"}]})
    found = resolve(["v.dev/c=x"], tmp_path)
    assert found.env == {"A": "1=2"}
    assert [(node.path, node.host_path) for node in found.nodes] == [("/dev/a", "/host/a")]


def test_what_a_runtime_would_not_take_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="unresolvable"):
        resolve(["v.dev/c=x"], tmp_path)
    spec(tmp_path, {"env": []})
    with pytest.raises(StartRefused, match="empty device edits"):
        resolve(["v.dev/c=x"], tmp_path)
    spec(tmp_path, {"env": ["nonsense"]})
    with pytest.raises(StartRefused, match="invalid environment"):
        resolve(["v.dev/c=x"], tmp_path)
