"""Which pods an offline command is about, and what each asks for."""

import argparse
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sublet.contract import dialects, keys
from sublet.contract.dialects.interface import IN_A_CLUSTER, Options
from sublet.contract.dialects.memoryunits import UNITS_MIB, MemoryUnits, Pool
from sublet.contract.podspec import Json, containers
from sublet.contract.reading import enabled_dialects, forged_keys, read_pod
from sublet.model.claim import Claim, LinkWish, PodAsk, Wishes
from sublet.model.errors import BadRequest
from sublet.model.reasons import Refusal, RefusalCode

SCHEMA = 1
ALL = tuple(dialects.BY_NAME)
GROUPS = {"all": ALL, "cluster": IN_A_CLUSTER}
MOST_FACTOR = 2**20


def add_arguments(
    parser: argparse.ArgumentParser, *, required: bool = True, default: tuple[str, ...] = ALL
) -> None:
    """Without `required` the cluster is read where no file is given."""
    source = "" if required else "; default: the cluster"
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        required=required,
        metavar="FILE",
        help=f"manifests in YAML or JSON; may be repeated; - is standard input{source}",
    )
    parser.add_argument(
        "--dialects",
        type=_dialects,
        default=default,
        metavar="A,B",
        help=f"read only these spellings of a claim: of {','.join(ALL)}; all for all of them, cluster for "
        f"those which are on in a cluster unless it says otherwise; default: {_called(default)}",
    )
    add_unit(parser)
    parser.add_argument(
        "--volcano-memory-factor",
        type=_factor,
        default=1,
        metavar="N",
        help="how many MiB one of volcano.sh/gpu-memory is; default: 1",
    )
    parser.add_argument(
        "--keep-scheduler-name",
        action="store_true",
        help="leave pods to the scheduler of KAI, HAMi or Volcano that they name",
    )


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


def _called(names: tuple[str, ...]) -> str:
    return next(name for name, members in GROUPS.items() if members == names)


def _factor(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MOST_FACTOR):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST_FACTOR}")
    return int(text)


def _dialects(text: str) -> tuple[str, ...]:
    if text in GROUPS:
        return GROUPS[text]
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [name for name in names if name not in dialects.BY_NAME]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r}: known are {', '.join((*ALL, *GROUPS))}")
    return names


def _pools(text: str) -> tuple[Pool, ...]:
    entries = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return MemoryUnits.read("GiB", entries).pools
    except BadRequest as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def options_of(arguments: argparse.Namespace) -> Options:
    return Options(
        enabled=arguments.dialects,
        volcano_unit_mib=arguments.volcano_memory_factor,
        keep_scheduler_name=arguments.keep_scheduler_name,
        **units_of(arguments),
    )


def units_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options about the unit of aliyun.com/gpu-mem."""
    pools: tuple[Pool, ...] = arguments.gpu_mem_pools
    return {"gpu_mem_unit_mib": UNITS_MIB[arguments.gpu_mem_unit], "gpu_mem_pools": pools}


def pod_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def read_ask(pod: Json, options: Options) -> PodAsk | Refusal | None:
    """As API server and webhook read a new pod in a managed namespace."""
    refused = _requests_alone(pod) or forged_keys(pod, options)
    return refused or read_pod(pod, namespace=pod["metadata"]["namespace"], options=options, managed=True)


def _requests_alone(pod: Json) -> Refusal | None:
    for container in containers(pod):
        requests = (container.raw.get("resources") or {}).get("requests") or {}
        for key in requests:
            if key not in container.limits and any(one.names(key) for one in dialects.ALL):
                return Refusal(
                    code=RefusalCode.MISSING_KEY,
                    message=f"container {container.name!r} has {key}={str(requests[key])[:80]!r} in requests "
                    "alone, which the API server refuses",
                    hint="Write it in limits",
                )
    return None


def spoken(pod: Json, options: Options) -> list[str]:
    """The dialects whose resources the pod names, readable or not."""
    known = enabled_dialects(options, managed=True)
    found = list(containers(pod))
    return sorted(one.name for one in known if any(one.speaks(each, pod, options) for each in found))


def off_in_a_cluster(ask: PodAsk | Refusal | None) -> list[str]:
    """The dialects of its claims that a cluster reads only where its settings name them."""
    claimed = ask.dialects if isinstance(ask, PodAsk) else ()
    return [name for name in claimed if name not in IN_A_CLUSTER]


def off_words(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"a cluster does not read {' and '.join(names)} unless its SUBLET_DIALECTS says so"


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
        keys.APART: wishes.apart or "",
    }
    return {key: value for key, value in found.items() if value}


def claim_words(claim: Claim) -> str:
    """The claim of one container for people."""
    if claim.exclusive:
        profile = f" of profile {claim.profile}" if claim.profile else ""
        return f"{claim.cards} whole card{'s' * (claim.cards > 1)}{profile}"
    percent = claim.core_percent if claim.memory_percent is None else _number(claim.memory_percent)
    memory = f"{percent} % memory" if claim.memory_mib is None else f"{claim.memory_mib} MiB"
    each = f" on each of {claim.cards} cards" if claim.cards > 1 else ""
    return f"{memory}, {claim.core_percent} % compute{each}"


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


def refusal_words(refused: Mapping[str, str]) -> str:
    """What `refusal_document` tells, for people: code, message and way out."""
    hint = f". {refused['hint']}" if refused["hint"] else ""
    return f"{refused['code']}: {refused['message']}{hint}"


def refusal_document(refusal: Refusal) -> dict[str, str]:
    return {"code": refusal.code.value, "message": refusal.message, "hint": refusal.hint}
