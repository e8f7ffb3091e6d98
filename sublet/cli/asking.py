"""Which pods an offline command is about, and what each asks for."""

import argparse
from fractions import Fraction
from typing import Any

from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import Options
from sublet.contract.dialects.memoryunits import UNITS_MIB, MemoryUnits, Pool
from sublet.contract.podspec import Json, containers
from sublet.contract.reading import enabled_dialects, forged_keys, read_pod
from sublet.model.claim import Claim, LinkWish, PodAsk, Wishes
from sublet.model.errors import BadRequest
from sublet.model.reasons import Refusal

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        required=True,
        metavar="FILE",
        help="manifests in YAML or JSON; may be repeated; - is standard input",
    )
    parser.add_argument(
        "--dialects",
        type=_dialects,
        default=tuple(dialects.BY_NAME),
        metavar="A,B",
        help=f"read only these spellings of a claim; default: {','.join(dialects.BY_NAME)}",
    )
    add_unit(parser)


def add_unit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu-mem-unit", choices=tuple(UNITS_MIB), default="GiB", help="unit of aliyun.com/gpu-mem"
    )
    parser.add_argument(
        "--gpu-mem-pools",
        type=_pools,
        default=(),
        metavar="LABEL=VALUE:UNIT,...",
        help="nodes with another unit of it, by a label, as in SUBLET_GPU_MEM_POOLS",
    )


def _dialects(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [name for name in names if name not in dialects.BY_NAME]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r}: known are {', '.join(dialects.BY_NAME)}")
    return names


def _pools(text: str) -> tuple[Pool, ...]:
    entries = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return MemoryUnits.read("GiB", entries).pools
    except BadRequest as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def options_of(arguments: argparse.Namespace) -> Options:
    return Options(enabled=arguments.dialects, **units_of(arguments))


def units_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options about the unit of aliyun.com/gpu-mem."""
    pools: tuple[Pool, ...] = arguments.gpu_mem_pools
    return {"gpu_mem_unit_mib": UNITS_MIB[arguments.gpu_mem_unit], "gpu_mem_pools": pools}


def pod_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def read_ask(pod: Json, options: Options) -> PodAsk | Refusal | None:
    """As the webhook reads a new pod in a managed namespace."""
    forged = forged_keys(pod, options)
    return forged or read_pod(pod, namespace=pod["metadata"]["namespace"], options=options, managed=True)


def spoken(pod: Json, options: Options) -> list[str]:
    """The dialects whose resources the pod names, readable or not."""
    known = enabled_dialects(options, managed=True)
    found = list(containers(pod))
    return sorted(one.name for one in known if any(one.speaks(each, pod, options) for each in found))


def claim_document(claim: Claim) -> dict[str, Any]:
    percent = claim.memory_percent
    document: dict[str, Any] = {
        "kind": claim.kind.value,
        "cards": claim.cards,
        "memoryMiB": claim.memory_mib,
        "memoryPercent": None if percent is None else _number(percent),
        "corePercent": claim.core_percent,
        "exclusive": claim.exclusive,
        "profile": claim.profile,
    }
    return document | ({"grows": True} if claim.grows else {})


def wishes_document(wishes: Wishes) -> dict[str, str]:
    """The annotations that say which cards go together; those of other systems are read as ours."""
    found = {
        keys.LINK: wishes.link.value if wishes.link is not LinkWish.PREFERRED else "",
        keys.NUMA: "same" if wishes.one_numa else "",
        keys.SAME_CARD: wishes.same_card or "",
    }
    return {key: value for key, value in found.items() if value}


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


def refusal_document(refusal: Refusal) -> dict[str, str]:
    return {"code": refusal.code.value, "message": refusal.message, "hint": refusal.hint}
