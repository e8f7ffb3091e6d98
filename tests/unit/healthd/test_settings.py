"""What healthd can be told from outside."""

from pathlib import Path

import pytest
from sublet_healthd.settings import Settings, read_policy

from sublet.model.errors import BadRequest
from sublet.model.health import Mode


def test_delays_and_mode_of_the_settings_are_those_of_the_policy() -> None:
    env = {"SUBLET_MODE": "guard", "SUBLET_IDLE_GRACE_S": "0.5", "SUBLET_PROBATION_S": "2"}
    policy = read_policy(Settings.from_env(env))
    assert (policy.mode, policy.timing.idle_grace_ms, policy.timing.probation_ms) == (Mode.GUARD, 500, 2000)


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"SUBLET_MOOD": "good"}, "unknown setting SUBLET_MOOD"),
        ({"SUBLET_MODE": "kill"}, "is not one of observe, guard, enforce"),
        ({"SUBLET_SILENCE_S": "0"}, "SUBLET_SILENCE_S='0' is not above 0"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(env: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        Settings.from_env(env)
    assert complaint in str(refused.value)


def test_a_policy_of_ones_own_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("name: mine\nversion: '7'\n")
    assert read_policy(Settings(policy=str(path))).label == "mine/v7"
    with pytest.raises(BadRequest):
        read_policy(Settings(policy=str(tmp_path / "none.yaml")))
