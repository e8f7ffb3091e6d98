"""The file that says how much CPU and memory is kept for each idle card, by node pool.

The first pool that a node is in counts.

```yaml
- nodeSelector: {pool: a100}
  cpu: "8"
  memory: 64Gi
```
"""

from collections.abc import Mapping
from pathlib import Path

import yaml

from sublet.contract.quantity import quantity
from sublet.model.errors import BadRequest
from sublet_scheduler.core.ratio import Ratio

_KEYS = {"nodeSelector", "cpu", "memory"}
_HINT = "Write for example: - {nodeSelector: {pool: a100}, cpu: 8, memory: 64Gi}"


def read_ratios(path: Path) -> tuple[Ratio, ...]:
    """What is kept for each idle card of a pool, in the order of the file.

    Raises:
        BadRequest: the file cannot be read, or an entry is not a ratio.
    """
    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadRequest(f"the ratios {path} cannot be read: {error}", hint="See SUBLET_RATIOS") from None
    if not isinstance(entries, list):
        raise BadRequest(f"the ratios {path} are not a list", hint=_HINT)
    return tuple(_read(entry, at) for at, entry in enumerate(entries))


def _read(entry: object, at: int) -> Ratio:
    if not isinstance(entry, Mapping):
        raise BadRequest(f"ratio {at} is {entry!r}, not a mapping", hint=_HINT)
    unknown = sorted(str(key) for key in entry.keys() - _KEYS)
    if unknown:
        raise BadRequest(f"ratio {at} has unknown keys: {', '.join(unknown)}", hint=_HINT)
    if "nodeSelector" not in entry:
        raise BadRequest(
            f"ratio {at} has no nodeSelector", hint="nodeSelector: {} means all nodes with cards"
        )
    ratio = Ratio(
        selector=_selector(entry["nodeSelector"], at),
        cpu_milli=_amount(entry, "cpu", at, 1000),
        memory_bytes=_amount(entry, "memory", at, 1),
    )
    if not (ratio.cpu_milli or ratio.memory_bytes):
        raise BadRequest(f"ratio {at} keeps neither cpu nor memory", hint=_HINT)
    return ratio


def _selector(value: object, at: int) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(one, str) for one in (*value, *value.values())):
        raise BadRequest(
            f"ratio {at} has nodeSelector {value!r}", hint="Labels and their values, both as text"
        )
    return dict(value)


def _amount(entry: Mapping[object, object], name: str, at: int, per_unit: int) -> int:
    """The quantity in thousandths of a core or in bytes; 0 where it is not there."""
    value = entry.get(name, 0)
    try:
        amount = quantity(value) * per_unit if not isinstance(value, bool) else -1
    except ValueError:
        amount = -1
    if amount < 0 or amount != int(amount):
        raise BadRequest(f"ratio {at} has {name}: {value!r}", hint=_HINT)
    return int(amount)
