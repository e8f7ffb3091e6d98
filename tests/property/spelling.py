"""Writes a claim in the words of each dialect, where that dialect has words for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sublet.model.claim import Claim

APP_CLASS = "tke.cloud.tencent.com/app-class"


@dataclass(frozen=True, slots=True)
class Spelled:
    """Limits of the container and annotations of its pod."""

    limits: Mapping[str, object] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def meaning(claim: Claim) -> tuple[object, ...]:
    """All of a claim that is about cards."""
    return (
        claim.cards,
        claim.memory_mib,
        claim.memory_percent,
        claim.core_percent,
        claim.exclusive,
        claim.profile,
        claim.grows,
        claim.core_limit_percent,
        claim.service_class,
    )


def _plain_share(claim: Claim) -> bool:
    return not (claim.exclusive or claim.grows or claim.service_class or claim.core_limit_percent)


def _whole(claim: Claim) -> bool:
    return claim.exclusive and claim.profile is None


def _sublet(claim: Claim) -> Spelled | None:
    if _whole(claim):
        return Spelled({"sublet.dev/gpu": claim.cards})
    percent = claim.memory_percent
    if not _plain_share(claim) or (percent is not None and percent.denominator != 1):
        return None
    amounts = {
        "sublet.dev/gpu-memory": claim.memory_mib,
        "sublet.dev/gpu-memory-percent": percent and int(percent),
        "sublet.dev/gpu-core": claim.core_percent or None,
    }
    named = {key: amount for key, amount in amounts.items() if amount is not None}
    return Spelled({"sublet.dev/gpu": claim.cards, **named}) if named else None


def _nvidia(claim: Claim) -> Spelled | None:
    if claim.exclusive:
        name = "gpu" if claim.profile is None else f"mig-{claim.profile}"
        return Spelled({f"nvidia.com/{name}": claim.cards})
    nothing = claim.memory_mib is None and claim.memory_percent is None and not claim.core_percent
    return Spelled({"nvidia.com/gpu.shared": claim.cards}) if nothing and _plain_share(claim) else None


def _amd(claim: Claim) -> Spelled | None:
    return Spelled({"amd.com/gpu": claim.cards}) if _whole(claim) else None


def gpushare_in(unit_mib: int) -> "Writer":
    """gpushare's words where a cluster counts in this unit."""

    def write(claim: Claim) -> Spelled | None:
        if _whole(claim):
            return Spelled({"aliyun.com/gpu-count": claim.cards})
        memory = claim.memory_mib
        if (
            not _plain_share(claim)
            or claim.cards > 1
            or claim.core_percent
            or not memory
            or memory % unit_mib
        ):
            return None
        return Spelled({"aliyun.com/gpu-mem": memory // unit_mib})

    return write


def _volcano(claim: Claim) -> Spelled | None:
    if _whole(claim):
        return Spelled({"volcano.sh/gpu-number": claim.cards})
    if claim.grows and claim.memory_mib:
        return Spelled({"volcano.sh/gpu-memory": claim.memory_mib})
    return _virtual(claim, "volcano.sh/vgpu-", "number", "memory", "memory-percentage", "cores")


def _hami(claim: Claim) -> Spelled | None:
    if _whole(claim):
        return Spelled({"nvidia.com/gpu": claim.cards, "nvidia.com/gpucores": 100})
    return _virtual(claim, "nvidia.com/", "gpu", "gpumem", "gpumem-percentage", "gpucores")


def _virtual(claim: Claim, prefix: str, *names: str) -> Spelled | None:
    percent = claim.memory_percent
    sayable = claim.memory_mib is not None or (percent is not None and percent.denominator == 1)
    if not _plain_share(claim) or not sayable or claim.core_percent == 100:
        return None
    count, memory, percentage, cores = (prefix + name for name in names)
    amount = {memory: claim.memory_mib} if percent is None else {percentage: int(percent)}
    return Spelled({count: claim.cards, cores: claim.core_percent, **amount})


def _qgpu(claim: Claim) -> Spelled | None:
    core, memory, greedy = (
        f"tke.cloud.tencent.com/qgpu-{name}" for name in ("core", "memory", "core-greedy")
    )
    if _whole(claim):
        return Spelled({core: 100 * claim.cards})
    if claim.exclusive or claim.grows or not claim.memory_mib or claim.memory_mib % 1024:
        return None
    amount = claim.memory_mib // 1024
    promised, limit = claim.core_percent, claim.core_limit_percent
    if claim.service_class == "online" and claim.cards == 1 and not promised and limit is None:
        return Spelled({memory: amount}, {APP_CLASS: "online"})
    if claim.service_class == "offline" and claim.cards == 1 and not promised and limit:
        return Spelled({greedy: limit, memory: amount}, {APP_CLASS: "offline"})
    if claim.service_class or limit is not None:
        return None
    if claim.cards == 1 and 5 <= promised <= 95 and promised % 5 == 0:
        return Spelled({core: promised, memory: amount})
    if claim.cards == 2 and 50 <= promised < 100:
        return Spelled({core: max(101, 2 * promised), memory: 2 * amount})  # 100 is a whole card
    return None


def _elastic(claim: Claim) -> Spelled | None:
    if _whole(claim):
        return Spelled({"elasticgpu.io/gpu-core": 100 * claim.cards})
    if not _plain_share(claim) or claim.cards > 1 or claim.memory_percent or claim.core_percent == 100:
        return None
    amounts = {
        "elasticgpu.io/gpu-core": claim.core_percent or None,
        "elasticgpu.com/gpu-memory": claim.memory_mib,
    }
    named = {key: amount for key, amount in amounts.items() if amount is not None}
    return Spelled(named) if named else None


def _vcuda(claim: Claim) -> Spelled | None:
    if _whole(claim):
        return Spelled({"tencent.com/vcuda-core": 100 * claim.cards})
    memory = claim.memory_mib
    if claim.exclusive or claim.grows or claim.service_class or claim.cards > 1 or not memory or memory % 256:
        return None
    if not 1 <= claim.core_percent <= 99:
        return None
    limit = claim.core_limit_percent
    return Spelled(
        {"tencent.com/vcuda-core": claim.core_percent, "tencent.com/vcuda-memory": memory // 256},
        {"tencent.com/vcuda-core-limit": str(limit)} if limit else {},
    )


def _kai(claim: Claim) -> Spelled | None:
    percent = claim.memory_percent
    if not _plain_share(claim):
        return None
    devices = {"gpu-fraction-num-devices": str(claim.cards)}
    if claim.memory_mib is not None and not claim.core_percent:
        return Spelled({}, {"gpu-memory": str(claim.memory_mib), **devices})
    if percent is not None and 0 < percent < 100 and claim.core_percent == int(percent):
        return Spelled({}, {"gpu-fraction": _decimal(percent / 100), **devices})
    return None


def _decimal(value: Fraction) -> str:
    places = next(count for count in range(1, 21) if (value * 10**count).denominator == 1)
    return f"0.{int(value * 10**places):0{places}d}"


Writer = Callable[[Claim], Spelled | None]
WRITERS: Mapping[str, Writer] = {
    "sublet": _sublet,
    "nvidia": _nvidia,
    "amd": _amd,
    "gpushare": gpushare_in(1024),
    "volcano": _volcano,
    "qgpu": _qgpu,
    "elastic-gpu": _elastic,
    "vcuda": _vcuda,
    "hami": _hami,
    "kai": _kai,
}
