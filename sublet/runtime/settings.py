"""Settings from the environment: one frozen dataclass a service, unknown names refused."""

import dataclasses
import logging
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from sublet.model.errors import BadRequest

PREFIX = "SUBLET_"
# read elsewhere: by the test run and by every service's log
FOREIGN = frozenset({"SUBLET_REQUIRE", "SUBLET_LAB"})

LONGEST_S: Final = 365 * 24 * 3600
LARGEST_PORT: Final = 65_535
OR_ZERO: Final = MappingProxyType({"or zero": True})
"""Metadata of a field in seconds for which 0 has a meaning."""

T = TypeVar("T")


def env_name(field: str) -> str:
    return PREFIX + field.upper()


def read_settings(cls: type[T], env: Mapping[str, str]) -> T:
    """Make `cls`, a dataclass of str, int, float, bool and tuple[str, ...] fields, from ``SUBLET_<FIELD>``.

    Raises:
        BadRequest: an unknown name, so that a typo cannot hide; a value of another type; a time (``_s``), a
            port or a log level that cannot be; a field without default that is missing or empty.
    """
    hints = typing.get_type_hints(cls)
    fields = {env_name(field.name): field for field in dataclasses.fields(typing.cast(Any, cls))}
    found: dict[str, Any] = {}
    for name in sorted(key for key in env if key.startswith(PREFIX) and key not in FOREIGN):
        if name not in fields:
            raise BadRequest(f"unknown setting {name}", hint=f"Known: {', '.join(sorted(fields))}")
        found[fields[name].name] = value = _read(env[name], hints[fields[name].name], name)
        _check(fields[name], value, text=env[name])
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and found.get(field.name, "") == "":
            missing = "empty" if field.name in found else "missing"
            raise BadRequest(f"setting {name} is {missing}", hint="Set it in the environment")
    return cls(**found)


def _check(field: "dataclasses.Field[Any]", value: Any, *, text: str) -> None:
    """What a value of the right type can still be wrong in; the end of a name says what it is."""
    told = f"{env_name(field.name)}={text!r}"
    if field.name.endswith("_s"):
        or_zero = field.metadata == OR_ZERO
        if not (0 < value <= LONGEST_S or (or_zero and value == 0)):
            least = "from 0" if or_zero else "above 0, up"
            raise BadRequest(
                f"{told} is not {least} to {LONGEST_S}", hint="It is in seconds, for example 2.5"
            )
    elif field.name.endswith("_port"):
        if not 0 <= value <= LARGEST_PORT:
            raise BadRequest(f"{told} is not from 0 to {LARGEST_PORT}", hint="Write a TCP port")
    elif field.name == "log_level" and value.upper() not in (levels := logging.getLevelNamesMapping()):
        known = ", ".join(sorted(name.lower() for name in levels))
        raise BadRequest(f"{told} is no level of a log", hint=f"Known: {known}")


def _read(text: str, kind: Any, name: str) -> Any:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    if typing.get_origin(kind) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise BadRequest(f"{name}={text!r} is neither true nor false", hint="Write one of them")
    try:
        return kind(text)
    except ValueError:
        allowed = f"one of {', '.join(kind)}" if hasattr(kind, "__members__") else f"of type {kind.__name__}"
        raise BadRequest(
            f"{name}={text!r} is not {allowed}", hint="Leave it away to get the default"
        ) from None
