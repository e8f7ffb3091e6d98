"""Settings of all services: whatever is written into them, the answer is clear or the service runs."""

import contextlib
import dataclasses
import typing
from collections.abc import Callable, Mapping

import pytest
import sublet_agent.settings
import sublet_healthd.settings
import sublet_scheduler.settings

from sublet.contract.qualified import is_qualified
from sublet.model.errors import BadRequest
from sublet.runtime import log
from sublet.runtime.settings import env_name, read_settings

NONSENSE = ("nan", "inf", "-inf", "-1", "1e400", "9" * 40, "x y", "a\x00b", "٣.٥")


def _healthd(env: Mapping[str, str]) -> object:
    settings = sublet_healthd.settings.Settings.from_env(env)
    return sublet_healthd.settings.read_policy(settings)


READERS: dict[type[object], Callable[[Mapping[str, str]], object]] = {
    sublet_agent.settings.Settings: sublet_agent.settings.Settings.from_env,
    sublet_healthd.settings.Settings: _healthd,
    sublet_scheduler.settings.Settings: lambda env: read_settings(sublet_scheduler.settings.Settings, env),
}
NEEDED: dict[type[object], dict[str, str]] = {sublet_agent.settings.Settings: {"SUBLET_NODE": "n1"}}


def settings_that(holds: Callable[[str, object], bool]) -> list[tuple[type[object], str]]:
    return [
        (cls, field.name)
        for cls in READERS
        for field in dataclasses.fields(typing.cast(typing.Any, cls))
        if holds(field.name, field.type)
    ]


def refused(cls: type[object], name: str, value: str) -> str:
    with pytest.raises(BadRequest) as error:
        READERS[cls]({**NEEDED.get(cls, {}), env_name(name): value})
    assert error.value.hint
    return str(error.value)


@pytest.mark.parametrize("value", [*NONSENSE, "0"])
def test_every_setting_takes_whatever_is_written_or_refuses_it(value: str) -> None:
    for cls, name in settings_that(lambda *_: True):
        with contextlib.suppress(BadRequest):
            READERS[cls]({**NEEDED.get(cls, {}), env_name(name): value})


@pytest.mark.parametrize(("cls", "name"), settings_that(lambda name, _: name.endswith("_s")))
def test_a_time_is_a_number_of_seconds_that_passes(cls: type[object], name: str) -> None:
    for value in ("nan", "inf", "-1", "1e12"):
        assert f"{env_name(name)}={value!r} is not" in refused(cls, name, value)


@pytest.mark.parametrize(("cls", "name"), settings_that(lambda name, _: name.endswith("_port")))
def test_a_port_is_one_that_tcp_has(cls: type[object], name: str) -> None:
    for value in ("-1", "65536"):
        assert f"{env_name(name)}={value!r} is not from 0 to 65535" in refused(cls, name, value)


@pytest.mark.parametrize("cls", READERS)
def test_a_level_of_the_log_is_one_that_the_log_knows(cls: type[object]) -> None:
    assert "SUBLET_LOG_LEVEL='loud' is no level" in refused(cls, "log_level", "loud")
    READERS[cls]({**NEEDED.get(cls, {}), "SUBLET_LOG_LEVEL": "Debug"})
    log.configure("test", level="debug")


def test_a_setting_without_default_is_not_left_empty() -> None:
    assert "setting SUBLET_NODE is empty" in refused(sublet_agent.settings.Settings, "node", "")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tolerate_taints", "nvidia.com/gpu,dedicated=gpu", "names 'dedicated=gpu'"),
        ("tolerate_taints", "nvidia.com/gpu:NoSchedule", "names 'nvidia.com/gpu:NoSchedule'"),
        ("placeholder_resource", "gpu", "='gpu' can be no extended resource"),
        ("webhook_names", "scheduler_1.svc", "names 'scheduler_1.svc'"),
        ("webhook_names", " , ", "names ''"),
        ("decision_budget_s", "30", "is more than 28"),
        ("queue_holds", "-1", "SUBLET_QUEUE_HOLDS=-1 is below 0"),
    ],
)
def test_what_the_api_server_would_refuse_later_is_refused_at_the_start(
    name: str, value: str, message: str
) -> None:
    assert message in refused(sublet_scheduler.settings.Settings, name, value)


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("nvidia.com/gpu", True),
        ("dedicated", True),
        ("a.b/C_d.e-f", True),
        ("A.b/c", False),
        ("a/b/c", False),
        ("-a", False),
        ("a" * 64, False),
        ("a/", False),
        ("/a", False),
        ("ä", False),
        ("a\n", False),
        ("", False),
    ],
)
def test_keys_are_known_as_kubernetes_knows_them(key: str, good: bool) -> None:
    assert is_qualified(key) is good
