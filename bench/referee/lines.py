"""A policy in another process: one JSON request a line, one JSON answer a line; both ends of it."""

import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from bench.referee.runs import Policy
from bench.referee.trace import Node, Pod, Shape, Target

Factory = Callable[[Sequence[Node], Target, int], Policy]
"""Nodes, the target workload (empty: none is known), seed."""


def serve(factory: Factory, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more; the first must be `init`."""
    policy: Policy | None = None
    for line in requests:
        asked = json.loads(line)
        answer: dict[str, Any] = {"ok": True}
        if asked["op"] == "init":
            nodes = [Node(**one) for one in asked["nodes"]]
            target = [(_shape(one), one["weight"]) for one in asked["target"]]
            policy = factory(nodes, target, asked["seed"])
        elif policy is None:
            answer = {"error": "the first request must be init"}
        elif asked["op"] == "place":
            found = policy.place(Pod(asked["id"], _shape(asked)))
            answer = {"node": found[0], "cards": list(found[1])} if found else {"node": None}
        else:
            policy.release(asked["id"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Process:
    """Asks a policy that `serve`s."""

    def __init__(self, command: str, nodes: Sequence[Node], target: Target, seed: int) -> None:
        self._process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._ask(
            op="init",
            seed=seed,
            nodes=[
                {
                    "name": one.name,
                    "cpu_milli": one.cpu_milli,
                    "mem_mib": one.mem_mib,
                    "cards": one.cards,
                    "model": one.model,
                }
                for one in nodes
            ],
            target=[_written(shape) | {"weight": weight} for shape, weight in target],
        )

    def place(self, pod: Pod) -> tuple[str, tuple[int, ...]] | None:
        answer = self._ask(op="place", id=pod.id, **_written(pod.shape))
        return (answer["node"], tuple(answer["cards"])) if answer.get("node") else None

    def release(self, pod_id: str) -> None:
        self._ask(op="release", id=pod_id)

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(10)

    def _ask(self, **request: object) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit(f"the policy's process ended with status {self._process.wait()}")
        return json.loads(line)


def _written(shape: Shape) -> dict[str, object]:
    return {
        "cpu_milli": shape.cpu_milli,
        "mem_mib": shape.mem_mib,
        "num_gpu": shape.num_gpu,
        "gpu_milli": shape.gpu_milli,
        "models": list(shape.models),
    }


def _shape(read: dict[str, Any]) -> Shape:
    return Shape(
        read["cpu_milli"], read["mem_mib"], read["num_gpu"], read["gpu_milli"], tuple(read["models"])
    )
