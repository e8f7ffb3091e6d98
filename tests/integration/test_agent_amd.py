"""The agent on a node with AMD's cards."""

from sublet_agent.settings import Source

from sublet.contract import keys
from sublet.model.card import Vendor
from tests.amdtree.tree import AmdGpu, AmdTree
from tests.integration.agentstage import CARDS, agent_stage, grant, pod


async def test_a_container_gets_its_cards_nodes_and_the_compute_drivers() -> None:
    async with agent_stage() as stage:
        tree = AmdTree(stage.root / "sys")
        tree.show(*(AmdGpu(pci=f"0000:0{n}:00.0", node=n, unique_id=str(n)) for n in (1, 2)))
        (stage.root / "dev/dri").mkdir()
        for name in ("kfd", "dri/card1", "dri/renderD129", "dri/card2", "dri/renderD130"):
            (stage.root / "dev" / name).touch()
        async with stage.agent(cards=Source.AMD, sysfs_root=str(tree.root), kmsg="none"):
            seen = await stage.inventory(lambda inventory: len(inventory.cards) == 2)
            await stage.ledger.write(*grant("p", CARDS[2]))
            await stage.kubelet.run(pod("p"))

        assert [(card.id, card.vendor) for card in seen.cards] == [
            (CARDS[1], Vendor.AMD),
            (CARDS[2], Vendor.AMD),
        ]
        assert stage.nodes("p") == ["/dev/dri/card2", "/dev/dri/renderD130", "/dev/kfd"]
        assert keys.ENV_NVIDIA_VISIBLE not in stage.sees("p")
