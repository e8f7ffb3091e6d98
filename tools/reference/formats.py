"""Files that are read and documents that are written, with examples that were run."""

import ast
import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sublet_healthd.core.replay import FLEET_KINDS, KINDS, NODE_KINDS
from sublet_scheduler.core.flight.file import FORMAT
from sublet_scheduler.core.flight.file import SCHEMA as FLIGHT_SCHEMA

from sublet.cli import main
from sublet.contract import inventory
from sublet.contract.fields import Fields
from tools.reference.page import ROOT, block, code, codes, page, table
from tools.reference.source import literal

EXAMPLES = ROOT / "docs" / "examples"
PARTS = (
    ("Node", "_node"),
    ("Card", "_card"),
    ("Partition", "_partition"),
    ("Taint", "_taint"),
    ("Grant", "_grant"),
)
READ = {
    "name": "text, required",
    "text": "text",
    "optional_text": "text",
    "texts": "mapping of text to text",
    "whole": "whole number",
    "optional_whole": "whole number",
    "whole_or_null": "whole number or `null` = unknown, required",
    "yes": "`true` or `false`",
    "word": "one of",
    "words": "mapping of text to one of",
    "items": "list",
}
DEFAULTS = {
    "text": '""',
    "optional_text": "null",
    "texts": "{}",
    "optional_whole": "null",
    "yes": "false",
    "words": "{}",
    "items": "[]",
}
POD = {
    "schema": "rises when a reader must look again",
    "pod": "namespace/name",
    "containers": "claiming containers only",
}
CLAIMS = POD | {
    "dialects": "the systems whose resources it names, sorted",
    "refused": "`null`, or code, message and hint",
}
PLACE = POD | {
    "outcome": "`placed`; `held`: readable, no room now; `refused`: the webhook would deny it; `unclaimed`: not ours",
    "node": "`null` unless placed",
    "annotations": "what the pod carries in the end, ours and its dialect's",
    "labels": "what the pod carries in the end",
    "env": "what the container's processes see from us",
    "reasons": "[code](reasons.md) to count; `{}` when placed, never empty for held and refused",
    "message": "for people",
}
MIGRATE = {
    "schema": "rises when a reader must look again",
    "dialects": "those that are read",
    "workloads": "one for each pod template, and for each pod that nothing listed controls; only those that concern "
    "cards. `outcome`: `placed`: Sublet decided on it already; `held`: Sublet has read it, and it waits for cards; `ready`; `changes`: listed in `changes`; `refused`; "
    "`outside`: it uses cards, or would run without one, and Sublet would not know. `managed`: whether foreign names "
    "count in its namespace, `null` = unknown. `writes`: names of what the scheduler would write into its pods",
    "unclaimed": "how many others there are",
    "components": "what other systems run. `role`: `device plugin`, `DRA driver`, `node total`, `webhook`, `scheduler "
    "extender`, `scheduler`; `nodes`: where it is known to run; `servesTwice`: it must go before Sublet serves there",
    "namespacesToLabel": "where workloads are read only with the label `sublet.dev/manage=true`",
    "against": "workloads that are refused or stay outside, and components that serve twice; the command ends with 1 "
    "unless it is 0",
}
CARDS = {
    "node": "its name",
    "card": "UUID",
    "index": "the card's place on its node",
    "model": "as the driver names it",
    "shareableMiB": "what shares may have together: more than `memoryMiB` where the cluster promises more than there is; "
    "`null` where the memory is unknown",
    "shareableCorePercent": "the same of compute; 100 is the card",
    "memoryMiB": "usable memory, `null` = unknown",
    "usedMiB": "what grants promise",
    "usedCorePercent": "what grants promise",
    "health": "a [state](health.md)",
    "reasons": "what stands against its health",
    "containers": "who holds a share of it: `pod`, `container`, `memoryMiB`, `corePercent`",
}

OBSERVATIONS = {
    "card": (
        "`serial`, `pci`, `model`, `bootId`, `driver` (may be absent)",
        "seen; a new UUID at the same PCI address is a replacement",
    ),
    "occupancy": (
        "`pods`: list of namespace/name",
        "who is on the card, until the next; before the first it counts as in use",
    ),
    "hold": ("`by`, `note`, `until?` (seconds, as `t`)", "a person puts it aside"),
    "release": ("`by`, `note`", "a person gives it back"),
    "ack": ("`by`, `note`", "a person takes back reasons that only a person can"),
    "xid": ("`code`, `source`: `nvml` or `kmsg`, `gi`, `ci` (may be absent)", "the driver's error code"),
    "sxid": ("`code`, `source`, `gi`, `ci` (may be absent)", "the switch's error code"),
    "recovery_action": ("`value`: `none` or a value of the policy", "what the driver says the card needs"),
    "level": ("`name` of the policy, `value`: `true`, `false` or a number", "a polled state, from now on"),
    "probe": ("`result`: `ok`, `lost`, `error`, `hang`", "whether the driver answers for it"),
    "reset": ("", "a reset was seen"),
    "boot": ("`bootId`", "of the node; another one is a reset of all its cards"),
    "kmsg": ("`text`", "a line of the kernel's log of the node"),
    "breaker": ("`do`: `open`, `half_open`, `close`; `by`, `note`", "a person opens or closes the breaker"),
    "tick": ("", "time passes"),
}
FLIGHT = {
    "format": f"`{FORMAT}`",
    "schema": f"{FLIGHT_SCHEMA}; another one is refused",
    "sublet": "the release that wrote it",
    "events": "how many events follow; a file with fewer is refused",
    "rules": "what the scheduler was set to",
}
REPLAY = {
    "schema": "rises when a reader must look again",
    "release": "of the scheduler that wrote the file",
    "events": "how many it was told",
    "decisions": "how many this release makes of them",
    "differences": "events at which it decides otherwise: `event` (number, from 1), `t`, `kind`, `was`, `now`",
    "pod": "with `--pod`, what was decided of it: `event`, `t`, `kind`, `decided`",
}


def render() -> str:
    shares, nodes = str(EXAMPLES / "shares.yaml"), str(EXAMPLES / "inventory.yaml")
    return page(
        "Formats",
        "Keys are added in later versions, none is renamed; readers of our outputs ignore keys that they do not know.",
        "## Inventory",
        "Read by the offline commands and by the agent with `SUBLET_CARDS=file`, which takes the entry named like its "
        "node, or the only one; written by `sublet cards -o inventory`. The top has one key, `nodes`, a list. Unknown "
        "keys are refused by name.",
        *_inventory(),
        "Example, `docs/examples/inventory.yaml`:",
        block("yaml", (EXAMPLES / "inventory.yaml").read_text()),
        "## Observations",
        "Read by `sublet health replay`: JSON lines, in order of `t` in seconds. All name `node` and `card`, but "
        f"{codes(NODE_KINDS)} name `node` alone and {codes(FLEET_KINDS)} neither. Timers fire at their due time before the next line, none "
        "after the last, so a file ends with a `tick`. The signal file of simulated nodes takes those that a driver could "
        "report; `t` and `node` may be absent there.",
        table(
            ("kind", "keys", "means"),
            ((code(kind), *OBSERVATIONS[kind]) for kind in (*KINDS, *NODE_KINDS, *FLEET_KINDS)),
        ),
        "Example, `docs/examples/observations.jsonl`:",
        block("json", (EXAMPLES / "observations.jsonl").read_text()),
        "## Flight",
        "Written by the scheduler at `/flight` beside its probes, read by `sublet replay`: JSON lines. The first is a "
        "head; lines with `memory` hold the engine's memory before the first event, by attribute (`value`, or `items` of a "
        "long one); lines with `t` (seconds of the scheduler's own clock) and `event` are what it was told, with its "
        "`decisions`. A value of ours is written as `is`, the name of its type, and its fields.",
        table(("key of the head", "holds"), ((code(key), means) for key, means in FLIGHT.items())),
        "`sublet replay -o json`:",
        table(("key", "holds"), ((code(key), means) for key, means in REPLAY.items())),
        "## Outputs",
        "Of `docs/examples/shares.yaml` on that inventory; the same input gives the same output, byte for byte. Two more "
        "keys of claims and place stand only where they say something: `schedulerName` (`from`, `to`) where a name is "
        "replaced, `offInACluster` with the dialects that were read and that a cluster leaves off unless it names them.",
        *_output(CLAIMS, ["claims", "-f", shares]),
        *_output(PLACE, ["place", "-f", shares, "--inventory", nodes]),
        *_output(CARDS, ["cards", "--inventory", nodes]),
        "A card of which somebody uses or sees something to whom it was not given has `usedOutsideMiB` and "
        "`usedOutsideBy`, a list of `pod <uid>` and `process <pid> <program>`, as well.",
        *_output(MIGRATE, ["migrate", "-f", str(EXAMPLES / "from" / "vcuda.yaml")], of="from/vcuda.yaml"),
    )


def _inventory() -> Iterator[str]:
    tree = ast.parse((ROOT / "sublet" / "contract" / "inventory.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for title, name in PARTS:
        yield f"### {title}"
        calls = [node for node in ast.walk(functions[name]) if isinstance(node, ast.Call)]
        in_order = sorted(calls, key=lambda call: (call.lineno, call.col_offset))
        rows = {row[0]: row for call in in_order for row in _field(call)}
        yield table(("key", "value", "default"), rows.values())


def _field(node: ast.Call) -> Iterator[tuple[str, ...]]:
    """A call such as ``fields.whole("pods", PODS)``."""
    if not (isinstance(node.func, ast.Attribute) and node.args):
        return
    key, read = literal(node.args[0]), node.func.attr
    if key is None or read not in READ or not hasattr(Fields, read):
        return
    value, default = READ[read], code(DEFAULTS.get(read, ""))
    given = node.args[1] if len(node.args) > 1 else None
    if read in ("word", "words") and isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name):
        enumeration = getattr(inventory, given.value.id)
        value += f" {codes(enumeration)}"
        default = code(enumeration[given.attr]) if read == "word" else default
    elif read == "whole" and isinstance(given, ast.Name):
        # a constant of the module, or the argument that counts the list
        default = code(vars(inventory)[given.id]) if given.id in vars(inventory) else "position in the list"
    elif read == "whole" and given is not None:
        default = code(ast.unparse(given))
    yield code(key), value, default


def _output(holds: Mapping[str, str], command: Sequence[str], *, of: str = "") -> Iterator[str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main.main([*command, "-o", "json"])
    printed: list[dict[str, Any]] | dict[str, Any] = json.loads(said.getvalue())
    first = printed[0] if isinstance(printed, list) else printed
    yield f"### sublet {command[0]} -o json"
    if of:
        yield f"Of `docs/examples/{of}`:"
    yield table(("key", "holds"), ((code(key), holds[key]) for key in first))
    shown = printed[:2] if isinstance(printed, list) else printed
    yield block("json", json.dumps(shown, indent=1, ensure_ascii=False))
