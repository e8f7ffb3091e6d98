"""Laws of the embedded API server's store, over any history of writes."""

from hypothesis import given
from hypothesis import strategies as st

from sublet.demo.apiserver.store import Key, Store
from sublet.kube.kind import CONFIGMAPS
from sublet.kube.port import Json

NAMES = st.sampled_from(["a", "b", "c", "d"])
WRITES = st.lists(st.tuples(NAMES, st.sampled_from(["put", "remove"]), st.integers(0, 3)), max_size=40)


def write(store: Store, name: str, what: str, value: int) -> None:
    key = Key(CONFIGMAPS, "default", name)
    body: Json = {"metadata": {"name": name, "namespace": "default"}, "data": {"k": str(value)}}
    there = store.find(key) is not None
    if what == "remove":
        if there:
            store.remove(key)
    elif there:
        store.replace(key, body)
    else:
        store.create(key, body)


def content(store: Store) -> dict[str, Json]:
    selected = store.select(CONFIGMAPS, None, lambda _: True)
    return {stored.obj["metadata"]["name"]: stored.obj for stored in selected}


@given(before=WRITES, after=WRITES)
def test_a_list_and_what_happened_since_make_the_present(
    before: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    store = Store(history_events=1_000)
    for each in before:
        write(store, *each)
    known, version = content(store), store.version
    for each in after:
        write(store, *each)
    for happened in store.since(version):
        if happened.new is None:
            del known[happened.key.name]
        else:
            known[happened.key.name] = happened.new.obj
    assert known == content(store)


@given(writes=WRITES, limit=st.integers(1, 3), meanwhile=WRITES)
def test_pages_and_what_happened_since_the_first_make_the_present(
    writes: list[tuple[str, str, int]], limit: int, meanwhile: list[tuple[str, str, int]]
) -> None:
    store = Store(history_events=1_000)
    for each in writes:
        write(store, *each)
    listed: dict[str, Json] = {}
    version, token, changes = store.version, "", list(meanwhile)
    while True:
        page = store.page(CONFIGMAPS, None, lambda _: True, limit=limit, proceed=token)
        listed |= {stored.obj["metadata"]["name"]: stored.obj for stored in page.items}
        assert page.version == version
        token = page.proceed
        if not token:
            break
        if changes:
            write(store, *changes.pop())
    for happened in store.since(version):
        if happened.new is None:
            listed.pop(happened.key.name, None)
        else:
            listed[happened.key.name] = happened.new.obj
    assert listed == content(store)


@given(writes=WRITES)
def test_versions_only_grow_and_each_write_has_its_own(writes: list[tuple[str, str, int]]) -> None:
    store = Store(history_events=1_000)
    for each in writes:
        write(store, *each)
    versions = [happened.version for happened in store.since(0)]
    assert versions == sorted(set(versions))
    assert all(int(obj["metadata"]["resourceVersion"]) in versions for obj in content(store).values())
