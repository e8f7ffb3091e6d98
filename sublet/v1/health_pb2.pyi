from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Signal(_message.Message):
    __slots__ = ("node", "card", "kind", "code", "name", "value", "source", "boot_id", "epoch", "seq", "at_ms", "count", "gi", "ci", "raw", "pci", "serial", "model", "driver")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    GI_FIELD_NUMBER: _ClassVar[int]
    CI_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    PCI_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    node: str
    card: str
    kind: str
    code: int
    name: str
    value: str
    source: str
    boot_id: str
    epoch: str
    seq: int
    at_ms: int
    count: int
    gi: int
    ci: int
    raw: str
    pci: str
    serial: str
    model: str
    driver: str
    def __init__(self, node: _Optional[str] = ..., card: _Optional[str] = ..., kind: _Optional[str] = ..., code: _Optional[int] = ..., name: _Optional[str] = ..., value: _Optional[str] = ..., source: _Optional[str] = ..., boot_id: _Optional[str] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., at_ms: _Optional[int] = ..., count: _Optional[int] = ..., gi: _Optional[int] = ..., ci: _Optional[int] = ..., raw: _Optional[str] = ..., pci: _Optional[str] = ..., serial: _Optional[str] = ..., model: _Optional[str] = ..., driver: _Optional[str] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("node", "card", "state", "schedulable", "withheld", "reasons", "action", "seq", "since_ms", "at_ms", "policy", "rule", "not_done", "mode", "boot_id", "probation_until_ms", "flaps", "pci", "serial", "model", "events", "hold", "cures", "breaker", "term", "acked_ms", "condemned_ms", "automatic", "boot_ms", "reset_ms", "parent")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    NOT_DONE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    PROBATION_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    FLAPS_FIELD_NUMBER: _ClassVar[int]
    PCI_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    CURES_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ACKED_MS_FIELD_NUMBER: _ClassVar[int]
    CONDEMNED_MS_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    BOOT_MS_FIELD_NUMBER: _ClassVar[int]
    RESET_MS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    node: str
    card: str
    state: str
    schedulable: bool
    withheld: bool
    reasons: _containers.RepeatedCompositeFieldContainer[Reason]
    action: str
    seq: int
    since_ms: int
    at_ms: int
    policy: str
    rule: str
    not_done: str
    mode: str
    boot_id: str
    probation_until_ms: int
    flaps: int
    pci: str
    serial: str
    model: str
    events: _containers.RepeatedScalarFieldContainer[str]
    hold: Hold
    cures: _containers.RepeatedCompositeFieldContainer[Cure]
    breaker: str
    term: int
    acked_ms: int
    condemned_ms: int
    automatic: bool
    boot_ms: int
    reset_ms: int
    parent: str
    def __init__(self, node: _Optional[str] = ..., card: _Optional[str] = ..., state: _Optional[str] = ..., schedulable: bool = ..., withheld: bool = ..., reasons: _Optional[_Iterable[_Union[Reason, _Mapping]]] = ..., action: _Optional[str] = ..., seq: _Optional[int] = ..., since_ms: _Optional[int] = ..., at_ms: _Optional[int] = ..., policy: _Optional[str] = ..., rule: _Optional[str] = ..., not_done: _Optional[str] = ..., mode: _Optional[str] = ..., boot_id: _Optional[str] = ..., probation_until_ms: _Optional[int] = ..., flaps: _Optional[int] = ..., pci: _Optional[str] = ..., serial: _Optional[str] = ..., model: _Optional[str] = ..., events: _Optional[_Iterable[str]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., cures: _Optional[_Iterable[_Union[Cure, _Mapping]]] = ..., breaker: _Optional[str] = ..., term: _Optional[int] = ..., acked_ms: _Optional[int] = ..., condemned_ms: _Optional[int] = ..., automatic: bool = ..., boot_ms: _Optional[int] = ..., reset_ms: _Optional[int] = ..., parent: _Optional[str] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("by", "note", "until_ms")
    BY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    by: str
    note: str
    until_ms: int
    def __init__(self, by: _Optional[str] = ..., note: _Optional[str] = ..., until_ms: _Optional[int] = ...) -> None: ...

class Cure(_message.Message):
    __slots__ = ("reason", "how", "at_ms")
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    how: str
    at_ms: int
    def __init__(self, reason: _Optional[str] = ..., how: _Optional[str] = ..., at_ms: _Optional[int] = ...) -> None: ...

class Breaker(_message.Message):
    __slots__ = ("state", "why", "by", "since_ms", "taken")
    STATE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    state: str
    why: str
    by: str
    since_ms: int
    taken: _containers.RepeatedCompositeFieldContainer[Taken]
    def __init__(self, state: _Optional[str] = ..., why: _Optional[str] = ..., by: _Optional[str] = ..., since_ms: _Optional[int] = ..., taken: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ...) -> None: ...

class HealthdHeartbeat(_message.Message):
    __slots__ = ("at_ms",)
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    def __init__(self, at_ms: _Optional[int] = ...) -> None: ...

class Taken(_message.Message):
    __slots__ = ("node", "card", "reason", "model", "at_ms")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    node: str
    card: str
    reason: str
    model: str
    at_ms: int
    def __init__(self, node: _Optional[str] = ..., card: _Optional[str] = ..., reason: _Optional[str] = ..., model: _Optional[str] = ..., at_ms: _Optional[int] = ...) -> None: ...

class Manual(_message.Message):
    __slots__ = ("id", "node", "card", "what", "by", "note", "until_ms", "at_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    node: str
    card: str
    what: str
    by: str
    note: str
    until_ms: int
    at_ms: int
    def __init__(self, id: _Optional[str] = ..., node: _Optional[str] = ..., card: _Optional[str] = ..., what: _Optional[str] = ..., by: _Optional[str] = ..., note: _Optional[str] = ..., until_ms: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class Verdicts(_message.Message):
    __slots__ = ("verdicts",)
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, _Mapping]]] = ...) -> None: ...

class Reason(_message.Message):
    __slots__ = ("id", "kind", "latched", "clears_on", "first_seen_ms", "last_seen_ms", "count", "action", "leave", "boot_id", "gi", "ci")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLASS_FIELD_NUMBER: _ClassVar[int]
    LATCHED_FIELD_NUMBER: _ClassVar[int]
    CLEARS_ON_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEEN_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_MS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    GI_FIELD_NUMBER: _ClassVar[int]
    CI_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: str
    latched: bool
    clears_on: str
    first_seen_ms: int
    last_seen_ms: int
    count: int
    action: str
    leave: bool
    boot_id: str
    gi: int
    ci: int
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[str] = ..., latched: bool = ..., clears_on: _Optional[str] = ..., first_seen_ms: _Optional[int] = ..., last_seen_ms: _Optional[int] = ..., count: _Optional[int] = ..., action: _Optional[str] = ..., leave: bool = ..., boot_id: _Optional[str] = ..., gi: _Optional[int] = ..., ci: _Optional[int] = ..., **kwargs) -> None: ...
