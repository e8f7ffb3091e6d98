"""In which unit a node, and a pod that may run there, counts ``aliyun.com/gpu-mem``.

gpushare's unit is set for each device plugin, so pools of nodes may differ. A pod's number has one
meaning: that of the pool which its node selector and required affinity name, else that of the nodes
outside all pools; and it only goes to nodes with this unit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sublet.contract import podspec
from sublet.contract.podspec import Json
from sublet.model.claim import Requirement
from sublet.model.errors import BadRequest

UNITS_MIB = {"GiB": 1024, "MiB": 1}
_EXAMPLE = "Write <label>=<value>:GiB or <label>=<value>:MiB, for example pool=large:MiB"


@dataclass(frozen=True, slots=True)
class Pool:
    """The nodes whose `label` has `value`, and their unit in MiB."""

    label: str
    value: str
    unit_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUnits:
    """`default_mib` is the unit of all nodes outside of `pools`; 1024 for GiB, 1 for MiB."""

    default_mib: int = 1024
    pools: tuple[Pool, ...] = ()

    @classmethod
    def read(cls, unit: str, pools: Sequence[str]) -> "MemoryUnits":
        """From the settings: a unit, and entries such as ``pool=large:MiB``.

        Raises:
            BadRequest: an entry that is not of this form or lacks its unit, a pool with two units, or two
                labels of which one node could have both, with different units.
        """
        if unit not in UNITS_MIB:
            raise BadRequest(f"the unit {unit!r} is not one of {', '.join(UNITS_MIB)}")
        found = tuple(_pool(text) for text in pools)
        for at, one in enumerate(found):
            for other in found[:at]:
                if one.unit_mib != other.unit_mib and (one.label, one.value) == (other.label, other.value):
                    raise BadRequest(
                        f"the nodes with {one.label}={one.value!r} count aliyun.com/gpu-mem in two units",
                        hint="Keep one of the two entries",
                    )
                if one.unit_mib != other.unit_mib and one.label != other.label:
                    raise BadRequest(
                        f"a node with {other.label}={other.value!r} and {one.label}={one.value!r} "
                        "would count aliyun.com/gpu-mem in two units",
                        hint="Tell pools of different units apart by the values of one label",
                    )
        return cls(default_mib=UNITS_MIB[unit], pools=found)

    def of_node(self, labels: Mapping[str, str]) -> int:
        """In MiB."""
        return next(
            (pool.unit_mib for pool in self.pools if labels.get(pool.label) == pool.value), self.default_mib
        )

    def of_pod(self, pod: Json) -> int:
        """In MiB: another unit than the default only where the pod can run on nodes of that unit alone."""
        others = self._others
        if others and all(self._pinned(one, others) for one in _alternatives(pod)):
            return next(pool.unit_mib for pool in self.pools if pool.unit_mib != self.default_mib)
        return self.default_mib

    def keeps_to(self, pod: Json) -> tuple[Requirement, ...]:
        """What a node must be like for the pod, beside what the pod itself says."""
        if self.of_pod(pod) != self.default_mib:
            return ()
        return tuple(
            Requirement(key=label, operator="NotIn", values=tuple(sorted(values)))
            for label, values in sorted(self._others.items())
        )

    @property
    def _others(self) -> dict[str, set[str]]:
        """Label -> its values on nodes with another unit than the default."""
        found: dict[str, set[str]] = {}
        for pool in self.pools:
            if pool.unit_mib != self.default_mib:
                found.setdefault(pool.label, set()).add(pool.value)
        return found

    @staticmethod
    def _pinned(alternative: Sequence[Requirement], others: Mapping[str, Collection[str]]) -> bool:
        return any(
            one.operator == "In"
            and one.values
            and one.key in others
            and set(one.values) <= set(others[one.key])
            for one in alternative
            if not one.field
        )


def unit_name(unit_mib: int) -> str:
    return next(name for name, mib in UNITS_MIB.items() if mib == unit_mib)


def _alternatives(pod: Json) -> list[tuple[Requirement, ...]]:
    """What the pod says of its node: one of these must hold."""
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    always = tuple(
        Requirement(key=key, operator="In", values=(str(value),)) for key, value in sorted(selector.items())
    )
    return [(*always, *term) for term in podspec.required_affinity(pod)] or [always]


def _pool(text: str) -> Pool:
    selector, colon, unit = text.rpartition(":")
    label, equals, value = (selector if colon else text).partition("=")
    if not (label and equals and value):
        raise BadRequest(f"{text!r} does not say which nodes it is about", hint=_EXAMPLE)
    if not unit or not colon:
        raise BadRequest(f"{text!r} says no unit of aliyun.com/gpu-mem", hint=_EXAMPLE)
    if unit not in UNITS_MIB:
        raise BadRequest(f"{text!r} has the unit {unit!r}", hint=_EXAMPLE)
    return Pool(label, value, UNITS_MIB[unit])
