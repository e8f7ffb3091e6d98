"""What sources poll and what policies judge are the same things."""

import pytest
from sublet_healthd.core.policyfile import PRESETS, preset

from sublet.model.level import COUNTS, FLAGS


@pytest.mark.parametrize("name", PRESETS)
def test_every_level_that_a_source_tells_has_its_rule(name: str) -> None:
    assert set(preset(name).rules.level) == {*FLAGS, *COUNTS}
