"""The demo's webhook configuration is the deployment's, and its conditions say what the CEL says."""

from pathlib import Path
from typing import Any

import yaml

from sublet.demo.webhook import PREDICATES, webhook_configuration
from tests.builders import container, pod

BASE = Path(__file__).parents[3] / "deploy/kustomize/base/admission/webhook.yaml"


def without_addresses(configuration: dict[str, Any]) -> dict[str, Any]:
    """Where it is reached, and the excluded namespaces, which kustomize fills in from one list."""
    for webhook in configuration["webhooks"]:
        del webhook["clientConfig"]
        for expression in webhook["namespaceSelector"]["matchExpressions"]:
            if expression["key"] == "kubernetes.io/metadata.name":
                del expression["values"]
    return configuration


def test_but_for_addresses_it_is_that_of_the_deployment() -> None:
    deployed = without_addresses(yaml.safe_load(BASE.read_text()))
    assert without_addresses(webhook_configuration(8443)) == deployed


def test_every_webhook_is_reached_on_loopback() -> None:
    urls = [webhook["clientConfig"]["url"] for webhook in webhook_configuration(8443)["webhooks"]]
    assert [url.rpartition("/")[0] for url in urls] == ["https://127.0.0.1:8443"] * 3


def test_every_condition_has_a_predicate() -> None:
    named = {
        condition["name"]
        for webhook in webhook_configuration(1)["webhooks"]
        for condition in webhook["matchConditions"]
    }
    assert named == PREDICATES.keys()


def review(manifest: dict[str, Any], user: str = "alice") -> dict[str, Any]:
    return {"object": manifest, "userInfo": {"username": user}}


def test_conditions_tell_whose_pod_it_is() -> None:
    ours, foreign, plain = pod(), pod("p", container(nvidia=1)), pod("p", container(cpu="1"))
    marked = pod("p", container(cpu="1"), annotations={"sublet.dev/anything": "x"})
    names_sublet, names_cards = PREDICATES["names-sublet"], PREDICATES["names-cards"]
    assert [names_sublet(review(one)) for one in (ours, foreign, plain, marked)] == [True, False, False, True]
    assert [names_cards(review(one)) for one in (ours, foreign, plain, marked)] == [False, True, False, False]


def test_mirrors_of_static_pods_are_left_alone() -> None:
    mirror = pod("p", annotations={"kubernetes.io/config.mirror": "x"})
    not_a_mirror = PREDICATES["not-a-mirror-pod"]
    assert not not_a_mirror(review(mirror, "system:node:n1"))
    assert not_a_mirror(review(mirror, "alice"))
