"""What a follower is told, by snapshots and hints alone."""

from sublet.bus.port import Deleted, Entry, Reset, Synced, Upserted
from sublet.bus.view import Heard, Snapshot, View


def snapshot(sequence: int, created: str = "monday", **revisions: int) -> Snapshot:
    entries = {key: entry(key, revision) for key, revision in revisions.items()}
    return Snapshot(created=created, sequence=sequence, entries=entries)


def entry(key: str, revision: int) -> Entry:
    return Entry(key=key, value=str(revision).encode(), revision=revision)


def heard(key: str, revision: int, *, deleted: bool = False) -> Heard:
    return Heard(key=key, value=str(revision).encode(), revision=revision, deleted=deleted, write_id="")


def given(first: Snapshot) -> View:
    view = View()
    list(view.take(first))
    return view


def test_the_first_snapshot_is_told_whole_and_closed_by_synced() -> None:
    told = list(View().take(snapshot(7, a=3, b=7)))
    assert told == [Upserted(entry=entry("a", 3)), Upserted(entry=entry("b", 7)), Synced()]


def test_a_snapshot_repairs_what_no_hint_told() -> None:
    view = given(snapshot(7, a=3, b=7))
    assert list(view.take(snapshot(9, b=9))) == [Upserted(entry=entry("b", 9)), Deleted(key="a", revision=9)]


def test_a_snapshot_that_brings_nothing_new_is_silent() -> None:
    view = given(snapshot(7, a=3))
    assert list(view.take(snapshot(7, a=3))) == []


def test_a_hint_that_a_snapshot_already_covers_is_dropped() -> None:
    view = given(snapshot(7, a=3))
    assert view.hint(heard("a", 3)) is None
    assert view.hint(heard("b", 6)) is None  # deleted again before the snapshot
    assert view.hint(heard("a", 8)) == Upserted(entry=entry("a", 8))
    assert view.hint(heard("a", 8)) is None


def test_a_value_newer_than_its_snapshot_is_told_once() -> None:
    view = given(snapshot(7, a=9))  # rewritten while the snapshot was read
    assert view.hint(heard("a", 9)) is None
    assert view.hint(heard("a", 10, deleted=True)) == Deleted(key="a", revision=10)


def test_the_deletion_of_an_unknown_key_is_not_told() -> None:
    view = given(snapshot(7))
    assert view.hint(heard("a", 8, deleted=True)) is None


def test_another_creation_time_resets() -> None:
    view = given(snapshot(7, a=3))
    told = list(view.take(snapshot(9, created="tuesday", b=2)))
    assert told == [Reset(), Upserted(entry=entry("b", 2)), Synced()]


def test_a_bucket_that_went_back_resets() -> None:
    view = given(snapshot(7, a=7))
    assert list(view.take(snapshot(6, a=5))) == [Reset(), Upserted(entry=entry("a", 5)), Synced()]
