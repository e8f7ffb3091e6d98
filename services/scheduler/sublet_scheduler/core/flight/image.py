"""The engine's memory at one moment, and an engine that goes on from there.

What is derived from the rest is left out and found again, but for the rankings: they may be a little behind
what was learned since, and decisions depend on that.
"""

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from sublet.model.errors import BadRequest
from sublet.model.ids import NodeName
from sublet_scheduler.core.candidates import Index
from sublet_scheduler.core.engine import Engine
from sublet_scheduler.core.flight.codec import Copied
from sublet_scheduler.core.gangs import Gathering
from sublet_scheduler.core.holds import Hold
from sublet_scheduler.core.node import NodeState
from sublet_scheduler.core.ranking import Levels, Ranks
from sublet_scheduler.core.records import PodRecord
from sublet_scheduler.core.scoring.tables import Tables
from sublet_scheduler.core.scoring.workload import Seen
from sublet_scheduler.core.state import Reservation, Rules

Image = Mapping[str, Any]
"""Attribute (as a path from the engine) -> a copy of its value that nothing changes any more."""


@dataclass(frozen=True, slots=True)
class Part:
    """One object of the engine: what of it is `remembered`, and what is `derived` from that or is one more
    part. Together they are all its attributes."""

    path: str
    remembered: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()


PARTS = (
    Part(path="holds", remembered=("_holds",), derived=("kept", "_before", "_rankings", "_new", "searches")),
    Part(path="gangs", remembered=("_gatherings", "_of", "_due")),
    Part(path="lifecycle", remembered=("_distrusted",)),
    Part(path="waiting", remembered=("_untold",), derived=("_together", "_in_vain", "_pass")),
    Part(path="endings"),
    Part(path="releases", derived=("may_release", "waits_until")),
    Part(path="reviews"),
    Part(
        path="ballast",
        remembered=(
            "pods", "_node_of", "_waits_for_word", "_looked", "_dirty", "_busy", "_again", "_all_heard_s"
        ),
    ),
    Part(
        path="placeholders",
        remembered=("pods", "_busy", "_again", "_looked", "_due_s", "_round_s"),
        derived=("_rooms",),
    ),
    Part(path="stuck"),
    Part(
        path="state",
        remembered=(
            "records", "reservations", "refs", "dropped", "doubtful", "avoid", "owners", "term",
            "pods_listed", "nodes_listed", "quotas_listed", "ledger_listed", "ledger_complete", "merged",
            "dirty", "passed_s", "waiting", "running", "hungry", "unevictable", "regrouped", "_watched",
            "totals_dirty", "totals_in_flight", "unplaced",
        ),
        derived=("rules", "effects"),
    ),
    Part(
        path="state.ledgers",
        remembered=("seen", "in_flight", "dirty", "unread", "owed", "unchecked", "fences"),
    ),
    Part(path="state.limits", remembered=("quotas", "used", "_held")),
    Part(
        path="state.fleet",
        remembered=("nodes", "groups", "replicas", "labels", "growths", "_layout"),
        derived=(
            "kinds", "_one_kind", "_order", "_places", "_overcommit", "_outside_use", "_silence",
            "_elsewhere", "_rows", "_sizes", "_size_of",
        ),
    ),
    Part(path="state.fleet.changed", remembered=("_when", "now")),
    Part(path="state.fleet.described", remembered=("_when", "now")),
    Part(
        path="state.placer",
        remembered=("tries",),
        derived=("defaults", "fresh_s", "eligible", "misses", "_shaped"),
    ),
    Part(
        path="state.placer.refusals",
        remembered=("built",),
        derived=("_fresh_s", "_known", "said"),
    ),
    Part(path="state.placer.patience", remembered=("left",)),
    Part(path="state.placer.candidates", remembered=("indices",), derived=("scored",)),
    Part(
        path="state.placer.fragmentation",
        remembered=("tables", "version"),
        derived=("_views", "weights"),
    ),
    Part(
        path="state.placer.fragmentation._workload",
        remembered=("_tasks", "_weight", "_since", "_target"),
    ),
)  # fmt: skip
_REMEMBERED = tuple(f"{part.path}.{name}" for part in PARTS for name in part.remembered)
_NODES, _INDICES, _TABLES = (
    "state.fleet.nodes",
    "state.placer.candidates.indices",
    "state.placer.fragmentation.tables",
)


def image_of(engine: Engine) -> Image:
    """A copy of all that `engine` remembers. Not while it goes through the queue."""
    layout = engine.state.fleet.layout  # from here on it stands until nodes come or go
    image = {path: _copy(attrgetter(path)(engine)) for path in _REMEMBERED}
    image[_INDICES] = {
        key: _index(index, current=index.layout == layout)
        for key, index in engine.state.placer.candidates.indices.items()
    }
    tables = engine.state.placer.fragmentation.tables
    image[_TABLES] = (tuple(tables.target), dict(tables.counted))
    return image


def engine_of(rules: Rules, image: Image) -> Engine:
    """An engine that remembers what another did when `image` was made of it.

    Raises:
        BadRequest: `image` lacks something, or has more than this release knows.
    """
    if image.keys() != set(_REMEMBERED):
        odd = ", ".join(sorted(image.keys() ^ set(_REMEMBERED)))
        raise BadRequest(f"the engine's memory is another's: {odd}", hint="Use the release that wrote it")
    engine = Engine(rules)
    for path in _REMEMBERED:
        owner, _, name = path.rpartition(".")
        part, value = attrgetter(owner)(engine), deepcopy(image[path])
        before = getattr(part, name)
        if path == _TABLES:
            value = Tables(list(value[0]), value[1])
        elif path == _INDICES:
            value = OrderedDict((key, _index_again(one, engine)) for key, one in value.items())
        elif isinstance(before, OrderedDict | Counter):
            value = type(before)(value)
        setattr(part, name, value)
        if path == _NODES:
            engine.state.fleet.derive()
    return engine


def _copy(value: Any) -> Any:
    copier = _COPIERS.get(type(value))
    return copier(value) if copier else value


def _copy_dict(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """The values of a dict are all of one type, and most are never changed."""
    for first in value.values():
        copier = _COPIERS.get(type(first))
        if copier:
            return {key: copier(one) for key, one in value.items()}
        break
    return dict(value)


def _index(index: Index, *, current: bool) -> Copied:
    order = () if current else index.order
    values = (
        index.asked,
        index.ranking.copied(),
        order,
        index.layout,
        index.seen,
        index.version,
        index.swept,
        index.built,
    )
    return Copied(Index, values)


def _index_again(index: Index, engine: Engine) -> Index:
    scores: Any = index.ranking
    index.ranking = Ranks.of(scores) if isinstance(scores, array) else Levels.of(scores)
    index.order = index.order or engine.state.fleet.order
    return index


_UNKNOWN = NodeState(NodeName(""))


def _copier(kind: type[Any], *, derived: tuple[str, ...] = ()) -> Callable[[Any], Copied]:
    """Copies the containers in its fields as well, of which the contents never change, but for those that
    are derived."""
    names = [one.name for one in fields(kind) if one.init]
    read = attrgetter(*names)
    hints = {one.name: str(one.type).partition("[")[0] for one in fields(kind)}
    own = [name for name in names if name not in derived and hints[name] in _EMPTY]
    empty = {names.index(name): _EMPTY[hints[name]] for name in own}
    unknown = {names.index(name): getattr(_UNKNOWN, name) for name in derived}

    def copy(value: Any) -> Copied:
        values = list(read(value))
        for at, nothing in empty.items():
            values[at] = values[at].copy() if values[at] else nothing
        for at, nothing in unknown.items():
            values[at] = nothing
        return Copied(kind, tuple(values))

    return copy


_EMPTY: dict[str, Any] = {"dict": {}, "set": set(), "list": [], "collections.deque": deque()}
"""What stands for every container without contents; nothing is ever put into them."""
_COPIERS: dict[type[Any], Callable[[Any], Any]] = {
    dict: _copy_dict,
    OrderedDict: _copy_dict,
    Counter: dict,
    list: lambda value: [_copy(one) for one in value],
    set: set,
    deque: deque,
    PodRecord: _copier(PodRecord),
    Reservation: _copier(Reservation),
    Gathering: _copier(Gathering),
    Hold: _copier(Hold),
    Seen: _copier(Seen),
    NodeState: _copier(
        NodeState, derived=("cards", "by_index", "free_mib", "most_free_mib", "most_free_core", "unused")
    ),
}
