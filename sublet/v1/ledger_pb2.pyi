from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Grant(_message.Message):
    __slots__ = ("namespace", "pod", "pod_uid", "decision", "container", "kind", "dialect", "card", "index", "memory_mib", "core_percent", "exclusive", "state", "env", "heir")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    CORE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    HEIR_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    pod_uid: str
    decision: str
    container: str
    kind: str
    dialect: str
    card: str
    index: int
    memory_mib: int
    core_percent: int
    exclusive: bool
    state: str
    env: _containers.ScalarMap[str, str]
    heir: str
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., pod_uid: _Optional[str] = ..., decision: _Optional[str] = ..., container: _Optional[str] = ..., kind: _Optional[str] = ..., dialect: _Optional[str] = ..., card: _Optional[str] = ..., index: _Optional[int] = ..., memory_mib: _Optional[int] = ..., core_percent: _Optional[int] = ..., exclusive: bool = ..., state: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., heir: _Optional[str] = ...) -> None: ...

class Shareable(_message.Message):
    __slots__ = ("card", "memory_mib", "core_percent")
    CARD_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    CORE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    card: str
    memory_mib: int
    core_percent: int
    def __init__(self, card: _Optional[str] = ..., memory_mib: _Optional[int] = ..., core_percent: _Optional[int] = ...) -> None: ...

class NodeLedger(_message.Message):
    __slots__ = ("node", "term", "grants", "closed", "shareable")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SHAREABLE_FIELD_NUMBER: _ClassVar[int]
    node: str
    term: int
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    closed: _containers.RepeatedScalarFieldContainer[str]
    shareable: _containers.RepeatedCompositeFieldContainer[Shareable]
    def __init__(self, node: _Optional[str] = ..., term: _Optional[int] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., closed: _Optional[_Iterable[str]] = ..., shareable: _Optional[_Iterable[_Union[Shareable, _Mapping]]] = ...) -> None: ...

class LedgerMeta(_message.Message):
    __slots__ = ("epoch", "complete", "term")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    complete: bool
    term: int
    def __init__(self, epoch: _Optional[str] = ..., complete: bool = ..., term: _Optional[int] = ...) -> None: ...
