from sublet.v1 import health_pb2 as _health_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Partition(_message.Message):
    __slots__ = ("uuid", "profile", "memory_mib", "gi", "ci", "slices")
    UUID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    GI_FIELD_NUMBER: _ClassVar[int]
    CI_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    profile: str
    memory_mib: int
    gi: int
    ci: int
    slices: int
    def __init__(self, uuid: _Optional[str] = ..., profile: _Optional[str] = ..., memory_mib: _Optional[int] = ..., gi: _Optional[int] = ..., ci: _Optional[int] = ..., slices: _Optional[int] = ...) -> None: ...

class Card(_message.Message):
    __slots__ = ("uuid", "index", "vendor", "model", "memory_mib", "numa", "pci", "serial", "minor", "links", "mig", "partitions", "used_outside_mib")
    class LinksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    UUID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    NUMA_FIELD_NUMBER: _ClassVar[int]
    PCI_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    MIG_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    USED_OUTSIDE_MIB_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    index: int
    vendor: str
    model: str
    memory_mib: int
    numa: int
    pci: str
    serial: str
    minor: int
    links: _containers.ScalarMap[str, str]
    mig: bool
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    used_outside_mib: int
    def __init__(self, uuid: _Optional[str] = ..., index: _Optional[int] = ..., vendor: _Optional[str] = ..., model: _Optional[str] = ..., memory_mib: _Optional[int] = ..., numa: _Optional[int] = ..., pci: _Optional[str] = ..., serial: _Optional[str] = ..., minor: _Optional[int] = ..., links: _Optional[_Mapping[str, str]] = ..., mig: bool = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., used_outside_mib: _Optional[int] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("node", "boot_id", "epoch", "seq", "at_ms", "cards", "shares_per_card", "slots", "registered", "injection", "driver", "problems", "verdicts")
    NODE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    SHARES_PER_CARD_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    INJECTION_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    boot_id: str
    epoch: str
    seq: int
    at_ms: int
    cards: _containers.RepeatedCompositeFieldContainer[Card]
    shares_per_card: int
    slots: int
    registered: bool
    injection: str
    driver: str
    problems: _containers.RepeatedScalarFieldContainer[str]
    verdicts: _containers.RepeatedCompositeFieldContainer[_health_pb2.Verdict]
    def __init__(self, node: _Optional[str] = ..., boot_id: _Optional[str] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., at_ms: _Optional[int] = ..., cards: _Optional[_Iterable[_Union[Card, _Mapping]]] = ..., shares_per_card: _Optional[int] = ..., slots: _Optional[int] = ..., registered: bool = ..., injection: _Optional[str] = ..., driver: _Optional[str] = ..., problems: _Optional[_Iterable[str]] = ..., verdicts: _Optional[_Iterable[_Union[_health_pb2.Verdict, _Mapping]]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("node", "boot_id", "epoch", "seq", "at_ms")
    NODE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    node: str
    boot_id: str
    epoch: str
    seq: int
    at_ms: int
    def __init__(self, node: _Optional[str] = ..., boot_id: _Optional[str] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class SlotUse(_message.Message):
    __slots__ = ("slot", "pod_uid", "namespace", "pod", "container")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    slot: str
    pod_uid: str
    namespace: str
    pod: str
    container: str
    def __init__(self, slot: _Optional[str] = ..., pod_uid: _Optional[str] = ..., namespace: _Optional[str] = ..., pod: _Optional[str] = ..., container: _Optional[str] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("slot", "pod_uid", "container", "decision", "cards")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    slot: str
    pod_uid: str
    container: str
    decision: str
    cards: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slot: _Optional[str] = ..., pod_uid: _Optional[str] = ..., container: _Optional[str] = ..., decision: _Optional[str] = ..., cards: _Optional[_Iterable[str]] = ...) -> None: ...

class CardUse(_message.Message):
    __slots__ = ("card", "processes", "used_mib", "outside_mib", "outside_by")
    CARD_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    USED_MIB_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_MIB_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_BY_FIELD_NUMBER: _ClassVar[int]
    card: str
    processes: int
    used_mib: int
    outside_mib: int
    outside_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, card: _Optional[str] = ..., processes: _Optional[int] = ..., used_mib: _Optional[int] = ..., outside_mib: _Optional[int] = ..., outside_by: _Optional[_Iterable[str]] = ...) -> None: ...

class Occupancy(_message.Message):
    __slots__ = ("node", "boot_id", "epoch", "seq", "at_ms", "ledger_revision", "checkpoint_read", "pod_resources_read", "cgroups_read", "processes_read", "slots", "prepared", "pods_with_cgroups", "cards", "slots_withheld")
    NODE_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_REVISION_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_READ_FIELD_NUMBER: _ClassVar[int]
    POD_RESOURCES_READ_FIELD_NUMBER: _ClassVar[int]
    CGROUPS_READ_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_READ_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    PODS_WITH_CGROUPS_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_WITHHELD_FIELD_NUMBER: _ClassVar[int]
    node: str
    boot_id: str
    epoch: str
    seq: int
    at_ms: int
    ledger_revision: int
    checkpoint_read: bool
    pod_resources_read: bool
    cgroups_read: bool
    processes_read: bool
    slots: _containers.RepeatedCompositeFieldContainer[SlotUse]
    prepared: _containers.RepeatedCompositeFieldContainer[Prepared]
    pods_with_cgroups: _containers.RepeatedScalarFieldContainer[str]
    cards: _containers.RepeatedCompositeFieldContainer[CardUse]
    slots_withheld: int
    def __init__(self, node: _Optional[str] = ..., boot_id: _Optional[str] = ..., epoch: _Optional[str] = ..., seq: _Optional[int] = ..., at_ms: _Optional[int] = ..., ledger_revision: _Optional[int] = ..., checkpoint_read: bool = ..., pod_resources_read: bool = ..., cgroups_read: bool = ..., processes_read: bool = ..., slots: _Optional[_Iterable[_Union[SlotUse, _Mapping]]] = ..., prepared: _Optional[_Iterable[_Union[Prepared, _Mapping]]] = ..., pods_with_cgroups: _Optional[_Iterable[str]] = ..., cards: _Optional[_Iterable[_Union[CardUse, _Mapping]]] = ..., slots_withheld: _Optional[int] = ...) -> None: ...
