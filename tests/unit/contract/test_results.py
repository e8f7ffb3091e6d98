"""What a placed pod carries and its containers see, in our words and in those of the other systems."""

from sublet.contract import keys
from sublet.contract.dialects.interface import Options
from sublet.contract.results import env_constants, env_sources
from sublet.model.card import Vendor
from tests.builders import ask, card, container, pod, sidecar
from tests.unit.contract.writing import AT_NS, A, B, C, grant, placed, results

MIB = Options(gpu_mem_unit_mib=1)
IDX, DEV, POD, CONTAINER = (f"ALIYUN_COM_GPU_MEM_{name}" for name in ("IDX", "DEV", "POD", "CONTAINER"))
ALLOCATION = "scheduler.framework.gpushare.allocation"


def test_a_native_pod_names_its_cards_by_container() -> None:
    manifest = pod("pod", container("a", gpu_memory=1), container("b", gpu=2))
    both = (grant(A, exclusive=True), grant(B, exclusive=True))
    found = results(manifest, placed(a=grant(C, 1), b=both))
    assert found.annotations == {"cards.sublet.dev/a": "GPU-c", "cards.sublet.dev/b": "GPU-a,GPU-b"}
    assert found.labels == {keys.CLAIMED_LABEL: "true"}
    assert found.env == {
        "a": {"NVIDIA_VISIBLE_DEVICES": "GPU-c"},
        "b": {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"},
    }


def test_a_card_of_another_vendor_is_not_shown_to_nvidias_runtime() -> None:
    amd = card("AMD-1", vendor=Vendor.AMD)
    found = results(
        pod("pod", container(gpu=1)), placed(main=grant(amd, exclusive=True)), cards={amd.id: amd}
    )
    assert found.env == {"main": {}}


def test_nvidia_writes_no_annotation_of_its_own() -> None:
    found = results(pod("pod", container(nvidia=1)), placed(main=grant(A, exclusive=True)))
    assert found.annotations == {"cards.sublet.dev/main": "GPU-a"}
    assert found.env == {"main": {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}}


def test_gpushare_in_gib_is_written_exactly() -> None:
    found = results(pod("pod", container(gpu_mem=3)), placed(main=grant(B, 3 * 1024)))
    assert found.annotations == {
        "cards.sublet.dev/main": "GPU-b",
        "ALIYUN_COM_GPU_MEM_IDX": "1",
        "ALIYUN_COM_GPU_MEM_DEV": "15",
        "ALIYUN_COM_GPU_MEM_POD": "3",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": str(AT_NS),
    }
    assert found.env == {
        "main": {
            "NVIDIA_VISIBLE_DEVICES": "GPU-b",
            "ALIYUN_COM_GPU_MEM_IDX": "1",
            "ALIYUN_COM_GPU_MEM_POD": "3",
            "ALIYUN_COM_GPU_MEM_CONTAINER": "3",
            "ALIYUN_COM_GPU_MEM_DEV": "15",
        }
    }


def test_gpushare_in_mib_is_written_in_mib() -> None:
    manifest = pod("pod", container(gpu_mem=8138))
    found = results(manifest, placed(main=grant(A, 8138)), options=MIB)
    assert (found.annotations[DEV], found.annotations[POD]) == ("15360", "8138")
    assert found.env["main"][CONTAINER] == "8138"


def test_a_card_of_16276_mib_has_15_gib() -> None:
    odd = card("GPU-o", gib=None)
    odd = type(odd)(id=odd.id, index=0, memory_mib=16276)
    found = results(pod("pod", container(gpu_mem=2)), placed(main=grant(odd, 2048)), cards={odd.id: odd})
    assert found.annotations[DEV] == "15"


def test_several_gpushare_containers_are_told_apart_by_their_place_in_the_pod() -> None:
    manifest = pod("pod", {"name": "web"}, container("a", gpu_mem=2), container("b", gpu_mem=3))
    found = results(manifest, placed(a=grant(A, 2048), b=grant(A, 3072)))
    assert found.annotations[ALLOCATION] == '{"1":{"0":2},"2":{"0":3}}'
    assert (found.annotations[IDX], found.annotations[POD]) == ("0", "5")
    assert [found.env[name][CONTAINER] for name in "ab"] == ["2", "3"]
    assert [found.env[name][POD] for name in "ab"] == ["5", "5"]


def test_a_sidecar_stands_after_the_main_containers() -> None:
    manifest = pod("pod", container("main", gpu_mem=2), init=(sidecar("side", gpu_mem=1),))
    found = results(manifest, placed(main=grant(A, 2048), side=grant(A, 1024)))
    assert found.annotations[ALLOCATION] == '{"1":{"0":1},"0":{"0":2}}'


def test_whole_cards_of_gpushare_are_listed_and_have_no_share_variables() -> None:
    both = (grant(A, exclusive=True), grant(B, exclusive=True))
    found = results(pod("pod", container(gpu_count=2)), placed(main=both))
    assert found.annotations[IDX] == "0,1"
    assert found.annotations[POD] == "30"
    assert found.annotations[ALLOCATION] == '{"0":{"0":15,"1":15}}'
    assert found.env == {"main": {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}}


def test_a_whole_card_beside_a_share_does_not_blur_the_shares_numbers() -> None:
    manifest = pod("pod", container("whole", gpu_count=1), container("part", gpu_mem=2))
    found = results(manifest, placed(whole=grant(A, exclusive=True), part=grant(B, 2048)))
    assert (found.annotations[IDX], found.annotations[POD]) == ("1", "2")
    assert found.annotations[ALLOCATION] == '{"0":{"0":15},"1":{"1":2}}'
    assert found.env["part"][IDX] == "1"


def test_an_init_container_counts_as_little_as_with_gpushare_itself() -> None:
    manifest = pod("pod", container("main", gpu_mem=2), init=(container("setup", gpu_mem=4),))
    found = results(manifest, placed(main=grant(A, 4096), setup=grant(A, 4096)))
    assert found.annotations[POD] == "2"
    assert ALLOCATION not in found.annotations
    assert (found.env["main"][CONTAINER], found.env["setup"][CONTAINER]) == ("2", "4")


def test_an_init_container_whose_heir_speaks_another_dialect_is_still_told() -> None:
    manifest = pod("pod", container("main", gpu_memory=4096), init=(container("setup", gpu_mem=2),))
    found = results(manifest, placed(main=grant(A, 4096), setup=grant(A, 4096)))
    assert (found.annotations[IDX], found.annotations[POD]) == ("0", "2")
    assert found.env["setup"][CONTAINER] == "2"
    assert CONTAINER not in found.env["main"]


def test_a_whole_card_of_unknown_memory_is_written_as_nothing() -> None:
    found = results(pod("pod", container(gpu_count=1)), placed(main=grant(C, exclusive=True)))
    assert (found.annotations[IDX], found.annotations[DEV], found.annotations[POD]) == ("2", "0", "0")


def test_what_the_runtime_reads_from_annotations_is_what_the_results_say() -> None:
    """Where nodes have no CDI, variables are field references and constants: the values must agree."""
    manifest = pod(
        "pod",
        container("a", gpu_mem=2),
        container("b", gpu_mem=3),
        container("c", nvidia=1),
        container("d", gpu_memory=5),
        init=(container("setup", gpu_mem=5),),
    )
    found = results(
        manifest,
        placed(
            setup=grant(A, 5120),
            a=grant(A, 5120),
            b=grant(A, 3072),
            c=grant(B, exclusive=True),
            d=grant(A, 5),
        ),
    )
    for claim in ask(manifest).claims:
        sources = {name: found.annotations[key] for name, key in env_sources(claim).items()}
        assert sources | dict(env_constants(claim)) == found.env[claim.container]
