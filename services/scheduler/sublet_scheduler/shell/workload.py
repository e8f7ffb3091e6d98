"""The file that says which pods to expect: a list of what they ask for, and how often each comes.

```yaml
- weight: 30
  limits: {sublet.dev/gpu-memory: 4096, sublet.dev/gpu-core: 20}
  requests: {cpu: "2", memory: 8Gi}
  annotations: {sublet.dev/card-models: a100}
```
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from sublet.contract.dialects.interface import Options
from sublet.contract.reading import read_pod
from sublet.model.claim import PodAsk
from sublet.model.errors import BadRequest

_KEYS = {"weight", "limits", "requests", "annotations"}


def read_workload(path: Path, options: Options) -> tuple[tuple[PodAsk, float], ...]:
    """Pods that are expected, each with its weight.

    Raises:
        BadRequest: the file cannot be read, or an entry is not one that a pod could ask.
    """
    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadRequest(f"the workload {path} cannot be read: {error}", hint="See SUBLET_WORKLOAD") from None
    if not isinstance(entries, list):
        raise BadRequest(f"the workload {path} is not a list", hint="Write one entry for each kind of pod")
    return tuple(_read(entry, at, options) for at, entry in enumerate(entries))


def _read(entry: object, at: int, options: Options) -> tuple[PodAsk, float]:
    if not isinstance(entry, Mapping) or not entry.keys() <= _KEYS:
        raise BadRequest(
            f"entry {at} of the workload has other keys than {', '.join(sorted(_KEYS))}", hint="See the docs"
        )
    weight = entry.get("weight", 1)
    if not isinstance(weight, int | float) or isinstance(weight, bool) or weight <= 0:
        raise BadRequest(f"entry {at} of the workload has weight {weight!r}", hint="A number above 0")
    ask = read_pod(_pod(entry), namespace="expected", options=options, managed=True)
    if not isinstance(ask, PodAsk):
        why = ask.message if ask else "it claims nothing"
        raise BadRequest(f"entry {at} of the workload: {why}", hint="Write limits as in a container")
    return ask, float(weight)


def _pod(entry: Mapping[str, Any]) -> dict[str, Any]:
    def texts(key: str) -> dict[str, str]:
        return {str(name): str(value) for name, value in (entry.get(key) or {}).items()}

    resources = {"limits": texts("limits"), "requests": texts("requests")}
    return {
        "metadata": {"name": "expected", "namespace": "expected", "annotations": texts("annotations")},
        "spec": {"containers": [{"name": "main", "image": "expected", "resources": resources}]},
    }
