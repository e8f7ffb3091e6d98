"""Names of MIG profiles: as drivers end product names with them, and as sizes make them."""

import pytest

from sublet.contract.profile import profile_in, profile_of


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "1c.3g.20gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb.me"),
        ("NVIDIA RTX PRO 6000 MIG 1g.24gb+me.all", "1g.24gb.me.all"),
        ("NVIDIA RTX PRO 6000 MIG 2g.48gb-me", "2g.48gb-me"),
        ("NVIDIA A100-SXM4-40GB", ""),
        ("", ""),
    ],
)
def test_a_product_name_that_ends_with_a_profile_says_it(name: str, profile: str) -> None:
    assert profile_in(name) == profile


# usable MiB of the card; slices, MiB of the instance, profile
@pytest.mark.parametrize(
    ("card_mib", "slices", "memory_mib", "profile"),
    [
        (24125, 1, 5836, "1g.6gb"),
        (40536, 1, 4864, "1g.5gb"),
        (40536, 1, 9856, "1g.10gb"),
        (40536, 2, 9856, "2g.10gb"),
        (40536, 3, 19968, "3g.20gb"),
        (40536, 7, 40192, "7g.40gb"),
        (81251, 1, 9856, "1g.10gb"),
        (81251, 3, 40192, "3g.40gb"),
        (143771, 1, 16384, "1g.18gb"),
        (143771, 1, 33280, "1g.35gb"),
        (143771, 3, 71680, "3g.71gb"),
        (143771, 7, 143360, "7g.141gb"),
    ],
)
def test_sizes_make_the_profile_that_the_vendor_names(
    card_mib: int, slices: int, memory_mib: int, profile: str
) -> None:
    made = profile_of(slices=slices, compute_slices=slices, memory_mib=memory_mib, card_mib=card_mib)
    assert made == profile
