"""The scheduler's right to patch pods reaches no further than what it writes."""

import pytest

from sublet.contract import keys
from tests.api.deployment import SCHEDULER
from tests.api.pods import JSON_PATCH, STRATEGIC, Pods, annotations, claiming, labels
from tests.api.verdicts import assert_allowed, assert_denied_by

pytestmark = [pytest.mark.api, pytest.mark.timeout(60)]

ANOTHER_GATE = "example.com/quota"
FORBIDDEN: dict[str, object] = {
    "an image": {"spec": {"containers": [{"name": "main", "image": "other"}]}},
    "a deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "another annotation": annotations(team="red"),
    "another annotation gone": annotations(team=None),
    "another label": labels(app="x"),
    "what a dialect's user writes": annotations(**{"gpu-fraction": "0.9"}),
    "another gate": {"spec": {"schedulingGates": [{"$patch": "delete", "name": ANOTHER_GATE}]}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/kept"]}},
    "an owner": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}
    },
}
OWN: dict[str, object] = {
    "the decision": annotations(**{keys.DECISION: '{"node":"n1"}'}),
    "cards": annotations(**{keys.cards_annotation("main"): "GPU-0002"}),
    "no longer waiting": annotations(**{keys.WAITING: None}),
    "the label": labels(**{keys.CLAIMED_LABEL: "true"}),
    "a dialect's result": annotations(ALIYUN_COM_GPU_MEM_IDX="0"),
    "a dialect's result of one container": annotations(**{"tencent.com/predicate-gpu-idx-0": "0"}),
    "a variable of a dialect": annotations(**{keys.variable_annotation("GPU", "main"): "0"}),
    "a dialect's label": labels(**{"hami.io/vgpu-node": "n1"}),
    "a toleration": {
        "spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}
    },
}


@pytest.mark.parametrize("change", FORBIDDEN.values(), ids=FORBIDDEN.keys())
async def test_the_scheduler_changes_nothing_else(pods: Pods, change: object) -> None:
    path = await pods.given(claiming(gates=(keys.GATE, ANOTHER_GATE)))
    answer = await pods.patch(path, change, as_=SCHEDULER, kind=STRATEGIC)
    assert_denied_by("sublet-scheduler-writes", answer)


@pytest.mark.parametrize("change", OWN.values(), ids=OWN.keys())
async def test_the_scheduler_writes_its_own(pods: Pods, change: object) -> None:
    path = await pods.given(claiming(gates=(keys.GATE, ANOTHER_GATE)))
    assert_allowed(await pods.patch(path, change, as_=SCHEDULER, kind=STRATEGIC))


async def test_the_scheduler_marks_a_disruption_but_ends_no_pod(pods: Pods) -> None:
    path = await pods.given(claiming())
    disrupted = {
        "op": "add",
        "path": "/status/conditions/-",
        "value": {"type": "DisruptionTarget", "status": "True", "reason": "StuckPin"},
    }
    assert_allowed(await pods.patch(f"{path}/status", [disrupted], as_=SCHEDULER, kind=JSON_PATCH))
    for change in ({"phase": "Failed"}, {"conditions": [{"type": "Ready", "status": "True"}]}):
        answer = await pods.patch(f"{path}/status", {"status": change}, as_=SCHEDULER, kind=STRATEGIC)
        assert_denied_by("sublet-scheduler-writes", answer)
