"""Settings from the environment: one frozen dataclass a service, unknown names refused."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from sublet.model.errors import BadRequest

PREFIX = "SUBLET_"
# read elsewhere: by the test run and by every service's log
FOREIGN = frozenset({"SUBLET_REQUIRE", "SUBLET_LAB"})

T = TypeVar("T")


def env_name(field: str) -> str:
    return PREFIX + field.upper()


def read_settings(cls: type[T], env: Mapping[str, str]) -> T:
    """Make `cls`, a dataclass of str, int, float, bool and tuple[str, ...] fields, from ``SUBLET_<FIELD>``.

    Raises:
        BadRequest: an unknown name, so that a typo cannot hide; a value of another type; a field
            without default that is missing.
    """
    hints = typing.get_type_hints(cls)
    fields = {env_name(field.name): field for field in dataclasses.fields(typing.cast(Any, cls))}
    found: dict[str, Any] = {}
    for name in sorted(key for key in env if key.startswith(PREFIX) and key not in FOREIGN):
        if name not in fields:
            raise BadRequest(f"unknown setting {name}", hint=f"Known: {', '.join(sorted(fields))}")
        found[fields[name].name] = _read(env[name], hints[fields[name].name], name)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in found:
            raise BadRequest(f"setting {name} is missing", hint="Set it in the environment")
    return cls(**found)


def _read(text: str, kind: Any, name: str) -> Any:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    if typing.get_origin(kind) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise BadRequest(f"{name}={text!r} is neither true nor false")
    try:
        return kind(text)
    except ValueError:
        allowed = f"one of {', '.join(kind)}" if hasattr(kind, "__members__") else f"of type {kind.__name__}"
        raise BadRequest(f"{name}={text!r} is not {allowed}") from None
