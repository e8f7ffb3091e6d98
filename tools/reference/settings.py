"""What each service can be told."""

import dataclasses
import types
import typing
from enum import StrEnum

import sublet_agent.settings
import sublet_healthd.settings
import sublet_scheduler.settings

from sublet.runtime.settings import env_name
from tools.reference.page import code, codes, page, table
from tools.reference.source import field_texts

SERVICES: dict[str, type[object]] = {
    "sublet-agent": sublet_agent.settings.Settings,
    "sublet-scheduler": sublet_scheduler.settings.Settings,
    "sublet-healthd": sublet_healthd.settings.Settings,
}
TYPES = {"str": "text", "int": "whole number", "float": "number", "bool": "`true` or `false`"}


def render() -> str:
    blocks = [
        "Read from the environment once, at the start. An unknown name that begins with `SUBLET_` stops the service "
        "with the list of known ones, so that a typing error cannot hide; therefore pods of Sublet set "
        "`enableServiceLinks: false`."
    ]
    for name, cls in SERVICES.items():
        blocks += [f"## {name}", table(("name", "type", "default", "notes"), _rows(cls))]
    return page("Settings", *blocks)


def _rows(cls: type[object]) -> list[tuple[str, ...]]:
    texts, hints = field_texts(cls), typing.get_type_hints(cls)
    fields = dataclasses.fields(typing.cast(typing.Any, cls))
    return [
        (
            code(env_name(field.name)),
            _type(field.name, hints[field.name]),
            _default(field),
            texts.get(field.name, ""),
        )
        for field in fields
    ]


def _type(name: str, hint: object) -> str:
    if isinstance(hint, types.UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not type(None))
    if typing.get_origin(hint) is tuple:
        return "comma list"
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return codes(hint)
    word = TYPES[typing.cast(type[object], hint).__name__]
    return f"{word}, s" if name.endswith("_s") and word != "text" else word


def _default(field: "dataclasses.Field[object]") -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    value = field.default
    if isinstance(value, tuple):
        return code(",".join(value))
    return code(str(value).lower() if isinstance(value, bool) else value)
