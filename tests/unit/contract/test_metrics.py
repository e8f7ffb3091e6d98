"""Labels of cards: the same in every service, and those of dcgm-exporter."""

import ast
from pathlib import Path

import pytest

from sublet.contract import metrics
from sublet.model.card import Card
from sublet.model.ids import CardId, NodeName

NODE, CARD = NodeName("n1"), CardId("GPU-5c8d")
SERVICES = Path(__file__).parents[3] / "services"


def test_a_card_is_labelled_as_dcgm_exporter_does() -> None:
    card = Card(id=CARD, index=3, pci="0000:b3:00.0", model="NVIDIA A100")
    assert dict(zip(metrics.CARD_LABELS, metrics.labels_of(NODE, card), strict=True)) == {
        "gpu": "3",
        "UUID": "GPU-5c8d",
        "pci_bus_id": "00000000:B3:00.0",
        "modelName": "NVIDIA A100",
        "Hostname": "n1",
    }


@pytest.mark.parametrize("pci", ["", "slot 4"])
def test_what_is_not_known_of_a_card_is_empty(pci: str) -> None:
    assert metrics.card_labels(NODE, CARD, pci=pci) == ("", "GPU-5c8d", "", "", "n1")
    assert metrics.card_labels(NODE, None) == ("", "", "", "", "n1")


def test_no_two_measures_share_a_name_and_no_service_has_one_of_its_own() -> None:
    names = [value for key, value in vars(metrics).items() if key.isupper() and isinstance(value, str)]
    assert len(set(names)) == len(names)
    own = [
        f"{path}:{node.lineno}"
        for path in SERVICES.rglob("metrics.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and str(node.value).startswith("sublet_")
    ]
    assert own == []
