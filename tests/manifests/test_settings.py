"""What the manifests set, the services know."""

import pytest
import sublet_agent.settings
import sublet_healthd.settings
import sublet_scheduler.settings

from sublet.runtime.settings import PREFIX, read_settings
from tests.manifests.rendering import OVERLAYS, reviewed, variables_of

SETTINGS: dict[str, type[object]] = {
    "agent": sublet_agent.settings.Settings,
    "scheduler": sublet_scheduler.settings.Settings,
    "healthd": sublet_healthd.settings.Settings,
}


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("service", SETTINGS)
def test_a_service_can_read_every_setting_that_it_is_given(overlay: str, service: str) -> None:
    given = variables_of(service, reviewed(overlay))
    assert all(name.startswith(PREFIX) for name in given)
    read_settings(SETTINGS[service], given)
