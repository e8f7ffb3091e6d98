"""The four ways to patch an object: JSON patch, merge patch, strategic merge, apply.

Strategic merge knows the lists that merge by key in the kinds served here; all others are replaced whole, as
in the API server (tolerations and taints among them). Apply is the strategic merge without owners: it neither
removes what a manager no longer sends nor sees conflicts between managers. A JSON patch that replaces what is
not there is refused, where the API server adds it.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import jsonpatch
import jsonpointer
import msgspec
import yaml

from sublet.demo.apiserver.answers import bad_request, unprocessable, unsupported
from sublet.kube.port import Json

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_IGNORED = ("$setElementOrder/", "$retainKeys")


def patched(current: Json, content_type: str, body: bytes) -> Json:
    """A new object; `current` is left alone."""
    match content_type:
        case "application/json-patch+json":
            return _json_patched(current, body)
        case "application/merge-patch+json":
            return merged(current, _object(body))
        case "application/strategic-merge-patch+json":
            return _strategic(current, _object(body))
        case "application/apply-patch+yaml":
            return _strategic(current, applied(body))
        case _:
            raise unsupported(content_type)


def applied(body: bytes) -> Json:
    """The intent of an apply, which may be written in YAML."""
    try:
        intent = yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(intent, dict):
        raise bad_request("the applied configuration is not an object")
    return intent


def merged(current: Any, change: Mapping[str, Any]) -> Json:
    """RFC 7386."""
    result: Json = dict(current) if isinstance(current, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key), value)
        else:
            result[key] = value
    return result


def with_operations(current: Json, operations: Sequence[Mapping[str, Any]]) -> Json:
    """RFC 6902; ValueError with the reason when an operation cannot be done."""
    try:
        result = jsonpatch.apply_patch(deepcopy(current), [dict(each) for each in operations])
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise ValueError(str(error)) from error
    if not isinstance(result, dict):
        raise ValueError("the patch leaves no object")
    return result


def _json_patched(current: Json, body: bytes) -> Json:
    try:
        operations = msgspec.json.decode(body, type=list[dict[str, Any]])
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    try:
        return with_operations(current, operations)
    except ValueError as error:
        raise unprocessable(str(error)) from error


def _object(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error


def _strategic(current: Any, change: Mapping[str, Any]) -> Json:
    if change.get("$patch") == "replace":
        return {key: value for key, value in change.items() if key != "$patch"}
    result: Json = dict(current) if isinstance(current, dict) else {}
    for key, value in change.items():
        if key.startswith(_DELETE_PRIMITIVES):
            name = key.removeprefix(_DELETE_PRIMITIVES)
            result[name] = [item for item in result.get(name) or [] if item not in value]
        elif key.startswith(_IGNORED):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            if value.get("$patch") == "delete":
                result.pop(key, None)
            else:
                result[key] = _strategic(result.get(key), value)
        elif isinstance(value, list):
            result[key] = _merged_list(key, result.get(key) or [], value)
        else:
            result[key] = value
    return result


def _merged_list(name: str, current: Sequence[Any], change: Sequence[Any]) -> list[Any]:
    if name == "finalizers":
        return [*current, *(item for item in change if item not in current)]
    merge_key = _MERGE_KEYS.get(name)
    # the same field name may hold plain values or other objects in another kind: those are replaced
    if merge_key is None or not all(isinstance(item, dict) for item in change):
        return list(change)
    if any(item.get("$patch") == "replace" for item in change):
        return [item for item in change if "$patch" not in item]
    result = [*current]
    for item in change:
        if merge_key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {merge_key}")
        at = next((n for n, old in enumerate(result) if old.get(merge_key) == item[merge_key]), None)
        if item.get("$patch") == "delete":
            result = [old for n, old in enumerate(result) if n != at]
        elif at is None:
            result.append(_strategic({}, item))
        else:
            result[at] = _strategic(result[at], item)
    return result
