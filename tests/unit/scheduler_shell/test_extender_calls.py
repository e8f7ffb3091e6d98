"""gpushare's scheduler extender and calls that no kube-scheduler makes."""

from typing import cast

import msgspec
import pytest
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.state import Rules
from sublet_scheduler.shell.extender import Extender

from sublet.contract.dialects.interface import Options
from sublet.kube.port import Kube


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"Pod": {"spec": {"containers": "x"}}, "NodeNames": ["n1"]}',
        b'{"Pod": {"spec": [1]}, "NodeNames": ["n1"]}',
        b'{"Pod": {}, "Nodes": {"items": 5}}',
        b'{"Pod": {}, "Nodes": {"items": [{}]}}',
    ],
)
def test_a_call_about_no_pod_or_no_nodes_is_the_callers_fault(body: bytes) -> None:
    nobody = cast(Kube, None)  # filter asks nobody
    extender = Extender(state=Engine(Rules()).state, kube=nobody, options=Options())
    with pytest.raises(msgspec.DecodeError):
        extender.filter(body)
