"""Performs the effects of one node: annotation, then verdicts and public events, then what people read."""

from sublet.model.ids import NodeName
from sublet_healthd.core.engine import Engine
from sublet_healthd.shell.announcer import Announcer
from sublet_healthd.shell.nodes import Nodes
from sublet_healthd.shell.nodestatus import wanted_status
from sublet_healthd.shell.outbox import Outbox, Work
from sublet_healthd.shell.store import VerdictStore


class Performer:
    def __init__(
        self, engine: Engine, outbox: Outbox, store: VerdictStore, announcer: Announcer, nodes: Nodes
    ) -> None:
        self._engine = engine
        self._outbox = outbox
        self._store = store
        self._announcer = announcer
        self._nodes = nodes

    async def run(self) -> None:
        await self._outbox.run(self.perform)

    async def perform(self, node: NodeName, work: Work) -> None:
        """The annotation outlives the bus: it says what was judged before anybody acts on the judgement."""
        await self._nodes.annotate(node, wanted_status(self._engine.known.of_node(node)))
        told = [transition for waiting in work.transitions.values() for transition in waiting]
        for transition in told:
            await self._announcer.announce(transition)
        for verdict in work.refreshed.values():
            await self._store.write(verdict)
        for verdict in work.forgotten.values():
            await self._store.drop(verdict)
        await self._nodes.set_condition(node, wanted_status(self._engine.known.of_node(node)))
        for transition in told:
            await self._nodes.tell(transition)

    async def reconcile(self) -> None:
        """Put right what others changed on Node objects, and nodes that were created anew."""
        await self._nodes.reread()
        for node in self._engine.known.nodes():
            if self._nodes.differs(node, wanted_status(self._engine.known.of_node(node))):
                self._outbox.put(node, [])
