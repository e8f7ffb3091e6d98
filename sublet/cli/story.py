"""What `sublet demo` shows, step by step.

Nothing is said here that was not read back: from the API server, from the bus, or from the stand-in kubelets.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from sublet.cli import cards, explain
from sublet.cli.events import event_line
from sublet.cli.output import print_table
from sublet.cli.watching import Seat, Watching
from sublet.client.subscriber import PublicEvent
from sublet.contract import keys, podspec, subjects
from sublet.contract.keys import ENV_NVIDIA_VISIBLE
from sublet.demo.child import DemoFailed
from sublet.demo.stage import NAMESPACE, Stage, samples
from sublet.kube.errors import AlreadyExists, NotFound
from sublet.kube.kind import PODS
from sublet.kube.port import Json
from sublet.model.health import HealthState
from sublet.model.ids import CardId

FALLEN_OFF_THE_BUS = 79
SPELLINGS = ("native", "nvidia", "gpushare")
LATE = "late"
HEALTH_EVENTS = ("health", "card")


@dataclass(slots=True)
class Story:
    """`check`: also prove after each step that pods, ledger and kubelets agree."""

    stage: Stage
    check: bool
    watching: Watching = field(init=False)

    def __post_init__(self) -> None:
        self.watching = Watching(self.stage)

    async def tell(self) -> AsyncIterator[str]:
        """Yields the name of each step before it is played.

        Raises:
            DemoFailed: something did not come true.
        """
        yield "three nodes with four cards join"
        await self._join()
        yield "pods in three spellings get their cards"
        await self._place()
        yield "an idle card breaks: it leaves scheduling"
        idle = await self._break_idle()
        yield "a card breaks under its pods: they run on, and nobody else comes"
        busy = await self._break_busy()
        yield "a new pod finds no healthy room: it waits and knows why"
        await self._come_late()
        yield "pods end: the broken card goes out as well, and the waiting pod gets a good one"
        await self._end(busy, avoid={idle.card.id, busy.card.id})
        yield "what subscribers of the bus were told"
        await self._events(idle.card.id, busy.card.id)

    async def _join(self) -> None:
        nodes = await self.watching.until(
            "every node shows its cards and slots", self._prepared, "agent", "scheduler"
        )
        print_table(
            ("NODE", "CARDS", "SLOTS", keys.GPU, keys.GPU_MEMORY, keys.NVIDIA_GPU, keys.ALIYUN_GPU_MEM),
            [
                (
                    node["metadata"]["name"],
                    node["metadata"]["labels"][keys.CARDS_LABEL],
                    *(
                        node["status"]["allocatable"][name]
                        for name in (
                            keys.SLOT,
                            keys.GPU,
                            keys.GPU_MEMORY,
                            keys.NVIDIA_GPU,
                            keys.ALIYUN_GPU_MEM,
                        )
                    ),
                )
                for node in nodes
            ],
        )

    async def _prepared(self) -> list[Json] | None:
        nodes = await self.watching.nodes()
        wanted = (keys.SLOT, keys.GPU, keys.GPU_MEMORY, keys.NVIDIA_GPU, keys.ALIYUN_GPU_MEM)
        prepared = [
            node
            for node in nodes
            if keys.CARDS_LABEL in (node["metadata"].get("labels") or {})
            and all(int(node["status"]["allocatable"].get(name, 0)) for name in wanted)
        ]
        return nodes if len(prepared) == len(self.stage.nodes) else None

    async def _place(self) -> None:
        names = [await self._create(pod) for spelling in SPELLINGS for pod in samples(spelling)]
        await self.watching.until(
            f"{', '.join(names)} run", lambda: self._running(names), "scheduler", "agent"
        )
        await self._show_pods()
        await self._show_cards()
        await self._agree()

    async def _create(self, pod: Json) -> str:
        name = str(pod["metadata"]["name"])

        async def create() -> str | None:
            with suppress(AlreadyExists):  # an answer was lost
                await self.stage.kube.create(PODS, pod)
            return name

        return await self.watching.until(f"the API server takes pod {name}", create, "scheduler")

    async def _running(self, names: Iterable[str]) -> list[Json] | None:
        pods = [await self.watching.pod(name) for name in names]
        return pods if all(pod["status"].get("phase") == "Running" for pod in pods) else None

    async def _break_idle(self) -> Seat:
        seat = next((one for one in await self.watching.seats() if not one.grants), None)
        if seat is None:
            raise DemoFailed("no card is idle")
        capacity, before = await self.watching.slots(seat.node.name)
        left = before - seat.node.shares_per_card
        self._report_xid(seat)

        async def withheld() -> bool | None:
            now = await self.watching.seat(seat.card.id)
            quarantined = now is not None and now.card.health is HealthState.QUARANTINED
            return (quarantined and await self.watching.slots(seat.node.name) == (capacity, left)) or None

        await self.watching.until(
            f"{seat.card.id} is quarantined and {left} of {capacity} slots stay",
            withheld,
            "agent",
            "healthd",
            "scheduler",
        )
        await self._show_cards()
        self._show_kubelet(seat)
        return seat

    async def _break_busy(self) -> Seat:
        shared = [one for one in await self.watching.seats() if one.grants and not one.grants[0].exclusive]
        if not shared:
            raise DemoFailed("no card is shared")
        seat = max(shared, key=lambda one: len(one.grants))
        names = sorted({grant.pod.name for grant in seat.grants})
        slots = await self.watching.slots(seat.node.name)
        self._report_xid(seat)

        async def condemned() -> bool | None:
            now = await self.watching.seat(seat.card.id)
            _, closed = await self.watching.ledger()
            return (now and now.card.health is HealthState.CONDEMNED and seat.card.id in closed) or None

        await self.watching.until(
            f"{seat.card.id} is condemned and closed", condemned, "agent", "healthd", "scheduler"
        )
        if await self._running(names) is None or await self.watching.slots(seat.node.name) != slots:
            raise DemoFailed(f"{', '.join(names)} were disturbed")
        await self._show_pods()
        await self._show_cards()
        self._show_kubelet(seat)
        await self._agree()
        return seat

    async def _come_late(self) -> None:
        [pod] = samples(LATE)
        await self._create(pod)

        async def waits() -> Json | None:
            now = await self.watching.pod(LATE)
            told = explain.explanation(now, managed=True)
            return now if told["outcome"] == "held" and told["reasons"].get("Unhealthy") == 2 else None

        held = await self.watching.until("the pod waits for a healthy card", waits, "scheduler")
        print("\n".join(explain.lines(explain.explanation(held, managed=True))))

    async def _end(self, busy: Seat, *, avoid: set[CardId]) -> None:
        capacity, before = await self.watching.slots(busy.node.name)
        left = before - busy.node.shares_per_card
        whole = [one for one in await self.watching.seats() if any(grant.exclusive for grant in one.grants)]
        for name in sorted({grant.pod.name for one in (busy, *whole) for grant in one.grants}):
            with suppress(NotFound):
                await self.stage.kube.delete(PODS, name, namespace=NAMESPACE)

        async def out() -> bool | None:
            now = await self.watching.seat(busy.card.id)
            gone = now is not None and now.card.health is HealthState.QUARANTINED and not now.grants
            return (gone and await self.watching.slots(busy.node.name) == (capacity, left)) or None

        await self.watching.until(
            f"{busy.card.id} is empty, quarantined and withheld", out, "agent", "healthd", "scheduler"
        )
        [late] = await self.watching.until(
            f"{LATE} runs", lambda: self._running([LATE]), "scheduler", "agent"
        )
        on = {
            card for env in self.watching.sees(late).values() for card in env[ENV_NVIDIA_VISIBLE].split(",")
        }
        if on & avoid:
            raise DemoFailed(f"{LATE} runs on a broken card: {', '.join(sorted(on))}")
        await self._show_pods()
        await self._show_cards()
        self._show_kubelet(busy)
        await self._agree()

    async def _events(self, *broken: CardId) -> None:
        async def told() -> list[PublicEvent] | None:
            stored = await self.watching.events(*subjects.EVENT_KINDS)
            out = {
                event.card
                for event in stored
                if event.kind == "health" and event.data.get("to") == HealthState.QUARANTINED
            }
            started = any(event.kind == "pod" and event.type.split(".")[3] == "released" for event in stored)
            return stored if started and set(broken) <= out else None

        for event in await self.watching.until("both cards' events are stored", told, "healthd", "scheduler"):
            print(event_line(event))

    def _report_xid(self, seat: Seat) -> None:
        self.stage.break_card(seat.node.name, seat.card.id, FALLEN_OFF_THE_BUS)

    async def _show_pods(self) -> None:
        rows = []
        for pod in await self.watching.pods():
            seen = self.watching.sees(pod)
            for container in podspec.containers(pod):
                asked = {
                    key: value for key, value in container.limits.items() if "/" in key and key != keys.SLOT
                }
                rows.append(
                    (
                        pod["metadata"]["name"],
                        pod["status"].get("phase", "-"),
                        pod["spec"].get("nodeName") or "-",
                        " ".join(f"{key}={value}" for key, value in sorted(asked.items())),
                        seen.get(container.name, {}).get(ENV_NVIDIA_VISIBLE, "-"),
                    )
                )
        print_table(("POD", "PHASE", "NODE", "ASKED", f"{ENV_NVIDIA_VISIBLE} IN THE CONTAINER"), rows)
        print()

    async def _show_cards(self) -> None:
        cluster = await self.watching.cluster()
        cards.show(cards.card_views(cluster), wide=False)

    def _show_kubelet(self, seat: Seat) -> None:
        capacity, allocatable = self.stage.node(seat.node.name).slots
        print(f"\nkubelet of {seat.node.name}: {allocatable} of {capacity} slots allocatable")

    async def _agree(self) -> None:
        """Pod, ledger and container name the same cards, for every claiming container that runs."""
        if not self.check:
            return
        grants, _ = await self.watching.ledger()
        agreed = 0
        for pod in await self.watching.pods():
            for container, env in self.watching.sees(pod).items():
                in_ledger = [
                    one for one in grants.get(pod["metadata"]["uid"], ()) if one.container == container
                ]
                said = {
                    "pod": podspec.annotations(pod).get(keys.cards_annotation(container), ""),
                    "ledger": ",".join(
                        one.grant.card for one in sorted(in_ledger, key=lambda one: one.grant.index)
                    ),
                    "container": env.get(ENV_NVIDIA_VISIBLE, ""),
                }
                if len(set(said.values())) != 1 or not said["pod"]:
                    raise DemoFailed(f"{pod['metadata']['name']}/{container}: {said} do not agree")
                agreed += 1
        containers = "1 container" if agreed == 1 else f"{agreed} containers"
        print(f"\nchecked: pod, ledger and container agree on the cards of {containers}")
