from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CardInfo(_message.Message):
    __slots__ = ("uuid", "serial", "pci", "index", "model", "vendor")
    UUID_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    PCI_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    serial: str
    pci: str
    index: int
    model: str
    vendor: str
    def __init__(self, uuid: _Optional[str] = ..., serial: _Optional[str] = ..., pci: _Optional[str] = ..., index: _Optional[int] = ..., model: _Optional[str] = ..., vendor: _Optional[str] = ...) -> None: ...

class NodeInfo(_message.Message):
    __slots__ = ("name", "boot_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    boot_id: str
    def __init__(self, name: _Optional[str] = ..., boot_id: _Optional[str] = ...) -> None: ...

class EventReason(_message.Message):
    __slots__ = ("code", "kind", "first_seen", "last_seen", "count", "latched", "clears_on", "mig")
    CODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEEN_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LATCHED_FIELD_NUMBER: _ClassVar[int]
    CLEARS_ON_FIELD_NUMBER: _ClassVar[int]
    MIG_FIELD_NUMBER: _ClassVar[int]
    code: str
    kind: str
    first_seen: str
    last_seen: str
    count: int
    latched: bool
    clears_on: str
    mig: MigInfo
    def __init__(self, code: _Optional[str] = ..., kind: _Optional[str] = ..., first_seen: _Optional[str] = ..., last_seen: _Optional[str] = ..., count: _Optional[int] = ..., latched: bool = ..., clears_on: _Optional[str] = ..., mig: _Optional[_Union[MigInfo, _Mapping]] = ..., **kwargs) -> None: ...

class PolicyInfo(_message.Message):
    __slots__ = ("name", "version", "rule")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    rule: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., rule: _Optional[str] = ...) -> None: ...

class HealthEvent(_message.Message):
    __slots__ = ("card", "node", "epoch", "seq", "to", "schedulable", "kubelet", "reasons", "action", "not_done", "policy", "decided_by", "hw_state", "in_use_by", "override", "breaker", "caused_by")
    CARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    SCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    KUBELET_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NOT_DONE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    HW_STATE_FIELD_NUMBER: _ClassVar[int]
    IN_USE_BY_FIELD_NUMBER: _ClassVar[int]
    OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    CAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    card: CardInfo
    node: NodeInfo
    epoch: str
    seq: int
    to: str
    schedulable: bool
    kubelet: str
    reasons: _containers.RepeatedCompositeFieldContainer[EventReason]
    action: str
    not_done: str
    policy: PolicyInfo
    decided_by: str
    hw_state: str
    in_use_by: _containers.RepeatedCompositeFieldContainer[PodInfo]
    override: Override
    breaker: BreakerInfo
    caused_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, card: _Optional[_Union[CardInfo, _Mapping]] = ..., node: _Optional[_Union[NodeInfo, _Mapping]] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., to: _Optional[str] = ..., schedulable: bool = ..., kubelet: _Optional[str] = ..., reasons: _Optional[_Iterable[_Union[EventReason, _Mapping]]] = ..., action: _Optional[str] = ..., not_done: _Optional[str] = ..., policy: _Optional[_Union[PolicyInfo, _Mapping]] = ..., decided_by: _Optional[str] = ..., hw_state: _Optional[str] = ..., in_use_by: _Optional[_Iterable[_Union[PodInfo, _Mapping]]] = ..., override: _Optional[_Union[Override, _Mapping]] = ..., breaker: _Optional[_Union[BreakerInfo, _Mapping]] = ..., caused_by: _Optional[_Iterable[str]] = ..., **kwargs) -> None: ...

class PodInfo(_message.Message):
    __slots__ = ("namespace", "name", "uid")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class Override(_message.Message):
    __slots__ = ("actor", "until", "note")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    actor: str
    until: str
    note: str
    def __init__(self, actor: _Optional[str] = ..., until: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class BreakerInfo(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: str
    def __init__(self, state: _Optional[str] = ...) -> None: ...

class MigInfo(_message.Message):
    __slots__ = ("gi", "ci")
    GI_FIELD_NUMBER: _ClassVar[int]
    CI_FIELD_NUMBER: _ClassVar[int]
    gi: int
    ci: int
    def __init__(self, gi: _Optional[int] = ..., ci: _Optional[int] = ...) -> None: ...

class EventGrant(_message.Message):
    __slots__ = ("container", "card", "index", "memory_mib", "core_percent", "exclusive")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    CORE_PERCENT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    container: str
    card: str
    index: int
    memory_mib: int
    core_percent: int
    exclusive: bool
    def __init__(self, container: _Optional[str] = ..., card: _Optional[str] = ..., index: _Optional[int] = ..., memory_mib: _Optional[int] = ..., core_percent: _Optional[int] = ..., exclusive: bool = ...) -> None: ...

class ShareEvent(_message.Message):
    __slots__ = ("what", "namespace", "pod", "pod_uid", "decision", "node", "grants", "reasons", "message", "seq")
    class ReasonsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    WHAT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    what: str
    namespace: str
    pod: str
    pod_uid: str
    decision: str
    node: str
    grants: _containers.RepeatedCompositeFieldContainer[EventGrant]
    reasons: _containers.ScalarMap[str, int]
    message: str
    seq: int
    def __init__(self, what: _Optional[str] = ..., namespace: _Optional[str] = ..., pod: _Optional[str] = ..., pod_uid: _Optional[str] = ..., decision: _Optional[str] = ..., node: _Optional[str] = ..., grants: _Optional[_Iterable[_Union[EventGrant, _Mapping]]] = ..., reasons: _Optional[_Mapping[str, int]] = ..., message: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class CardEvent(_message.Message):
    __slots__ = ("what", "card", "node", "seq")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    what: str
    card: CardInfo
    node: NodeInfo
    seq: int
    def __init__(self, what: _Optional[str] = ..., card: _Optional[_Union[CardInfo, _Mapping]] = ..., node: _Optional[_Union[NodeInfo, _Mapping]] = ..., seq: _Optional[int] = ...) -> None: ...

class AuditEvent(_message.Message):
    __slots__ = ("what", "by", "note", "message", "seq")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    what: str
    by: str
    note: str
    message: str
    seq: int
    def __init__(self, what: _Optional[str] = ..., by: _Optional[str] = ..., note: _Optional[str] = ..., message: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...
