"""The webhook configuration of the deployment, with the scheduler on loopback instead of behind a Service."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import yaml

from sublet.contract import keys, podspec
from sublet.contract.dialects import ALL
from sublet.contract.dialects.interface import NATIVE_NAME
from sublet.kube.port import Json

FOREIGN = tuple(one for one in ALL if one.name != NATIVE_NAME)
MIRROR = "kubernetes.io/config.mirror"


def webhook_configuration(port: int) -> Json:
    """What `deploy/kustomize` installs, reached at ``127.0.0.1:port``."""
    text = files(__package__).joinpath("webhook.yaml").read_text(encoding="utf-8")
    configuration: Json = yaml.safe_load(text)
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"].pop("service")["path"]
        webhook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
    return configuration


def _is_no_mirror(review: Json) -> bool:
    by_node = review["userInfo"]["username"].startswith("system:node:")
    return not (by_node and MIRROR in podspec.annotations(review["object"]))


def _names_sublet(review: Json) -> bool:
    pod = review["object"]
    named = [*podspec.annotations(pod), *podspec.labels(pod)]
    return any(keys.is_ours(key) for key in named) or _names(pod, lambda key: key.startswith(keys.PREFIX))


def _names_cards(review: Json) -> bool:
    pod = review["object"]
    claiming = any(one.claiming_annotations & podspec.annotations(pod).keys() for one in FOREIGN)
    return claiming or _names(pod, lambda key: any(one.names(key) for one in FOREIGN))


def _names(pod: Mapping[str, Any], concerns: Callable[[str], bool]) -> bool:
    named = (key for one in podspec.containers(pod) for key in {**one.limits, **one.requests})
    return any(concerns(key) for key in named)


PREDICATES: Mapping[str, Callable[[Json], bool]] = {
    "not-a-mirror-pod": _is_no_mirror,
    "names-sublet": _names_sublet,
    "names-cards": _names_cards,
}
"""The configuration's matchConditions by name, since the embedded API server evaluates no CEL."""
