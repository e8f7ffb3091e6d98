"""Files that are read and documents that are written, with examples that were run."""

import ast
import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

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
FORMS = {
    "pod": "namespace/name",
    "dialects": "the systems whose resources it names, sorted",
    "outcome": "`placed`; `held`: readable, no room now; `refused`: the webhook would deny it; `unclaimed`: not ours",
    "containers": "claiming containers only",
    "refused": "`null`, or code, message and hint",
    "reasons": "code to count, `{}` when placed; of a card: the health reasons that are open",
    "annotations": "what the pod carries in the end, ours and its dialect's",
    "labels": "what the pod carries in the end",
    "env": "what the container's processes see from us",
    "message": "for people",
    "node": "`null` unless placed",
    "schema": "rises when a reader must look again",
    "card": "UUID",
    "index": "the card's place on its node",
    "model": "as the driver names it",
    "memoryMiB": "the card's memory, `null` = unknown",
    "usedMiB": "what grants promise",
    "usedCorePercent": "what grants promise",
    "health": "a [state](health.md)",
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
        "## Outputs",
        "Of `docs/examples/shares.yaml` on that inventory; the same input gives the same output, byte for byte.",
        *_output("sublet claims -o json", ["claims", "-f", shares]),
        *_output("sublet place -o json", ["place", "-f", shares, "--inventory", nodes]),
        *_output("sublet cards -o json", ["cards", "--inventory", nodes]),
    )


def _inventory() -> Iterator[str]:
    tree = ast.parse((ROOT / "sublet" / "contract" / "inventory.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for title, name in PARTS:
        yield f"### {title}"
        rows = {row[0]: row for node in ast.walk(functions[name]) for row in _field(node)}
        yield table(("key", "value", "default"), rows.values())


def _field(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """A call such as ``fields.whole("pods", PODS)``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return
    key, read = literal(node.args[0]), node.func.attr
    if key is None or read not in READ or not hasattr(Fields, read):
        return
    value, default = READ[read], ""
    given = node.args[1] if len(node.args) > 1 else None
    if read in ("word", "words") and isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name):
        enumeration = getattr(inventory, given.value.id)
        value += f" {codes(enumeration)}"
        default = code(enumeration[given.attr]) if read == "word" else "`{}`"
    elif read == "whole" and isinstance(given, ast.Name):
        # a constant of the module, or the argument that counts the list
        default = code(vars(inventory)[given.id]) if given.id in vars(inventory) else "position in the list"
    elif read == "whole" and given is not None:
        default = code(ast.unparse(given))
    yield code(key), value, default


def _output(title: str, command: Sequence[str]) -> Iterator[str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main.main([*command, "-o", "json"])
    documents: list[dict[str, Any]] = json.loads(said.getvalue())
    yield f"### {title}"
    yield table(("key", "holds"), ((code(key), FORMS[key]) for key in documents[0]))
    yield block("json", json.dumps(documents[:2], indent=1, ensure_ascii=False))
