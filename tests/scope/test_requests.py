"""No request reaches a run that its sender may not see, however it names it.

Every route of a hub and of a plain server is asked by everybody, with each way to name a run in
each parameter. A route or parameter that is new is asked without a change of this file.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import gzip
import hashlib
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

from epochal.api.serving import ServerAddress, write_archive
from epochal.errors import UsageError
from epochal.hub.endpoints import HubControls, Receiving
from epochal.hub.ledger import Ledger, Links
from epochal.hub.serving import FolderRuns, HubRuns, SharedRuns, create_hub
from epochal.journal.boards import Board
from epochal.journal.layout import RunFolder, run_folders
from epochal.server.access import LOOPBACK, Access
from epochal.server.app import App, create_app
from epochal.server.endpoints import ENDPOINTS
from epochal.server.params import Param
from epochal.shipping.worker import ship_now
from epochal.store.cluster.catalog import ClusterCatalog
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.publishing import Publisher
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.local.catalog import folder_store
from epochal.store.store import Store
from tests.doubles.cluster import Cluster, opened_cluster
from tests.doubles.hub_in_process import HubInProcess
from tests.scope.marked import Mark, MarkedRun, Word, World, make_world
from tests.servers.postgres import new_database, postgres_address
from tools.wire import REQUEST_BODIES

# Requests for runs that do not exist wait together for the next look at the folder.
_AT_ONCE = 400
# Names of runs that may be seen, if they are similar to the word.
_HINT = re.compile(rb" Did you mean [^?]*\?")
_WAIT_S = 120.0
_STREAM = b"text/event-stream"
# Bodies of archives, which are compressed.
_PACKED = re.compile(rb'"(H4sI[\w+/=]+)"')
# Parameters that the hub's own routes take, beside those that endpoints declare.
_HUB_NAMES = ("project", "by")
# Where everybody finds their own run, so a run that should be hidden would be found too.
_SEEN = tuple(
    "/api/runs /api/series /api/export /api/runs/ID /api/runs/ID/records /api/why".split()
)


@dataclass(frozen=True, slots=True)
class Route:
    """A route as a stranger sees it: a path with gaps, and the names of its parameters."""

    path: str
    method: str
    params: Sequence[Param[Any] | str] = ()

    @property
    def gaps(self) -> list[str]:
        return re.findall(r"{(\w+)[^}]*}", self.path)

    def filled(self, values: dict[str, str]) -> str:
        return re.sub(r"{(\w+)[^}]*}", lambda gap: values[gap[1]], self.path)

    def takes(self, param: Param[Any] | str, text: str) -> bool:
        """Whether a parameter accepts a text; a number can name no run."""
        if isinstance(param, str):
            return True
        with contextlib.suppress(UsageError, msgspec.ValidationError):
            param.parse((text,))
            return True
        return False


@dataclass(frozen=True, slots=True)
class Role:
    """Somebody who asks, with a token or none; ``own`` is a run that they may see."""

    name: str
    token: str | None
    own: MarkedRun
    hidden: Sequence[Mark]
    words: Sequence[Word]
    sees: Sequence[str] = _SEEN


@dataclass(slots=True)
class Ask:
    """One request."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}?{urlencode(self.query)} {self.body[:200]!r}"


@dataclass(slots=True)
class Answer:
    status: int
    body: bytes
    media_type: bytes = b""

    def about(self, word: str) -> tuple[int, bytes]:
        """The status, and a refusal without the word that was asked or what is shown of it."""
        if self.status < 400:
            return self.status, b""
        body = _HINT.sub(b"", self.body)
        for form in (word, quote(word), word[:40], word.partition(":")[2] or word):
            body = body.replace(form.encode(), b"WORD")
        return self.status, body


@dataclass(slots=True)
class Server:
    """An application of one process, asked without sockets."""

    app: App
    routes: Sequence[Route]
    seen: set[tuple[str, str]] = field(default_factory=set)

    async def ask(self, ask: Ask, role: Role) -> Answer:
        answer, chunks, left = Answer(0, b""), list[bytes](), asyncio.Event()
        headers = {"host": "localhost", "content-type": ask.type}
        if role.token is not None:
            headers["authorization"] = f"Bearer {role.token}"
        if ask.body:
            headers["content-length"] = str(len(ask.body))
        requests = iter([{"type": "http.request", "body": ask.body}])

        async def receive() -> dict[str, Any]:
            request = next(requests, None)
            if request is None:
                await left.wait()
            return request or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.media_type = dict(message["headers"]).get(b"content-type", b"")
            else:
                chunks.append(message.get("body", b""))
                is_live = answer.media_type.startswith(_STREAM)
                # A stream tells first of runs that may be seen, if it is asked for any.
                if is_live and _holds(b"".join(chunks), [role.own.mark]):
                    left.set()

        scope = {
            "type": "http",
            "method": ask.method,
            "path": ask.path,
            "raw_path": ask.path.encode(),
            "query_string": urlencode(ask.query).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": (f"10.0.{hash(role.name) % 250}.{next(_addresses) % 250}", 1),
            "scheme": "http",
            "root_path": "",
            "http_version": "1.1",
        }
        # A stream of nothing but what is hidden never says anything.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.app.asgi(scope, receive, send), _patience_s(ask, role))
        answer.body = _unpacked(b"".join(chunks))
        return answer


_addresses = itertools.count()


def _patience_s(ask: Ask, role: Role) -> float:
    is_stream = ask.path.endswith("events")
    return _WAIT_S if not is_stream or ("run", role.own.id) in ask.query else 2.0


def _unpacked(body: bytes) -> bytes:
    packed = [gzip.decompress(base64.b64decode(one)) for one in _PACKED.findall(body)]
    return b"\n".join((body, *packed))


def _holds(body: bytes, marks: Iterable[Mark]) -> bool:
    return any(trace in body for mark in marks for trace in mark.traces)


def asks(route: Route, role: Role, word: str) -> Iterator[Ask]:
    """Every request with a word in a gap, in a parameter or in a body.

    A parameter that usually has a value also gets both, in either order.
    """
    gaps = {"file": "a.txt", "stem": "loop.0001.0000", "kind": "blobs", "name": "a.txt"}
    usual = {gap: gaps.get(gap, role.own.id) for gap in route.gaps}
    names = [param if isinstance(param, str) else param.name for param in route.params]
    query = [("run", role.own.id)] if "run" in names else []
    query += [(name, "loss") for name in ("name", "metric") if name in names]
    path = route.filled(usual)
    bodies = [b""] if route.method == "GET" else _bodies(word)
    for gap in route.gaps:
        for body in bodies[:1]:
            yield Ask(route.method, route.filled({**usual, gap: word}), query, body)
    for body in bodies if route.method != "GET" else ():
        yield Ask(route.method, path, query, body)
    for param, name in zip(route.params, names, strict=True):
        if route.takes(param, word):
            others = [pair for pair in query if pair[0] != name]
            yield Ask(route.method, path, [*others, (name, word)], bodies[0])
            if len(others) < len(query):
                yield Ask(route.method, path, [*query, (name, word)], bodies[0])
                yield Ask(route.method, path, [(name, word), *query], bodies[0])


@functools.cache
def _bodies(word: str) -> Sequence[bytes]:
    """Bodies of every kind that the server takes, with a word for each text."""
    every: dict[str, Any] = {"id": word, "name": "x", "project": "alpha", "labels": {"name": word}}
    return [
        msgspec.json.encode(one)
        for one in (every, *(_example(kind, word) for kind in REQUEST_BODIES))
    ]


def _example(kind: Any, word: str) -> Any:
    info = msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.StructType):
        return {one.encode_name: _filled(one.type, word) for one in info.fields}
    return None


def _filled(info: Any, word: str) -> Any:
    inspect = msgspec.inspect
    if isinstance(info, inspect.UnionType):
        return _filled(next(t for t in info.types if not isinstance(t, inspect.NoneType)), word)
    if isinstance(info, inspect.StructType):
        return _example(info.cls, word)
    if isinstance(info, (inspect.ListType, inspect.VarTupleType)):
        return [_filled(info.item_type, word)]
    if isinstance(info, inspect.DictType):
        return {word: _filled(info.value_type, word)}
    if isinstance(info, inspect.StrType):
        return word
    if isinstance(info, inspect.LiteralType):
        return info.values[0]
    return None


async def check(server: Server, roles: Sequence[Role]) -> None:
    """Ask everything; nothing of what is hidden comes back, and no answer tells what exists.

    What reads is asked first: later requests may write what their sender may write.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(ask: Ask, role: Role, twin: Ask | None, word: Word) -> None:
        async with limit:
            answer = await server.ask(ask, role)
            is_silent = answer.status == 0 and _patience_s(ask, role) < _WAIT_S
            assert is_silent or answer.status not in (0, 500), f"{role.name}: {ask} {answer}"
            leak = [mark.text for mark in role.hidden if _holds(answer.body, [mark])]
            assert not leak, f"{role.name}: {ask} → {answer.status} has {leak}"
            if answer.status == 200 and _holds(answer.body, [role.own.mark]):
                server.seen.add((role.name, ask.path.replace(role.own.id, "ID")))
            if twin is not None and not ask.path.endswith("events"):
                other = await server.ask(twin, role)
                told = (answer.about(word.text), other.about(word.twin or ""))
                assert told[0] == told[1], f"{role.name}: {ask} tells what exists"

    for role in roles:
        await _until_read(server, role)
    for is_read, role in itertools.product((True, False), roles):
        pending = []
        words = [Word(role.own.id), *role.words] if is_read else role.words
        routes = [route for route in server.routes if (route.method == "GET") == is_read]
        for route, word in itertools.product(routes, words):
            both = asks(route, role, word.text), asks(route, role, word.twin or "")
            for ask, twin in zip(*both, strict=False):
                is_compared = word.twin is not None and is_read
                pending.append(one(ask, role, twin if is_compared else None, word))
        await asyncio.gather(*pending)


async def _until_read(server: Server, role: Role) -> None:
    """Ask for the list until every run was read: only then unknown fields are refused."""
    while True:
        answer = await server.ask(Ask("GET", "/api/runs"), role)
        if answer.status != 200 or not json.loads(answer.body)["unsummarised"]:
            return


def routes_of(hub: Receiving | None = None) -> list[Route]:
    """The routes of a server, and of the hub that it may be."""
    own = [Route(one.path, one.method, one.params) for one in ENDPOINTS]
    more = hub.routes() if hub is not None else []
    return own + [
        Route(route.path, method, _HUB_NAMES)
        for route in more
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture(autouse=True)
def near(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.root.parent)


def _digest(folders: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        found.update(str(path).encode() + path.read_bytes())
    return found.hexdigest()


@contextlib.asynccontextmanager
async def running(app: App) -> AsyncIterator[App]:
    async with app.running():
        yield app
        app.close_streams()


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub with the runs of a world; ``state`` is a digest of what it has of the project beta."""

    runs: HubRuns
    ledger: Ledger
    state: Callable[[], str]


@contextlib.contextmanager
def hub_of_a_folder(world: World) -> Iterator[Hub]:
    with contextlib.closing(Ledger(world.root)) as ledger:
        beta = world.root / "beta"
        yield Hub(FolderRuns(world.root), ledger, lambda: _digest([beta]))


@contextlib.contextmanager
def hub_that_is_shared(world: World) -> Iterator[Hub]:
    """Hubs over a database and a bucket have received the runs and sealed some of them."""
    bucket = world.root.parent / "bucket"
    with opened_cluster(new_database(postgres_address()), str(bucket)) as cluster:
        received, folder = cluster.hub(), Path(cluster.bucket)
        fill(cluster, received, world)
        shared = SharedRuns(received, cache=world.root.parent / "cache")
        ledger = Ledger(ClusterDocuments(received.database))
        yield Hub(shared, ledger, lambda: _stored(received, "beta") + _digest([folder / "beta"]))
        shared.close()


def fill(cluster: Cluster, runs: ClusterRuns, world: World) -> None:
    """Have a cluster receive every run of a world, delete one, and publish what is sealed."""
    deleted = RunFolder(next(world.root.glob("alpha/.trash/*/dodo")))
    there = world.root.parent / "there"
    with contextlib.closing(HubInProcess(there, inbox=cluster.inbox(runs))) as client:
        for folder in (*run_folders(world.root), deleted):
            ship_now(folder, client)
    sealer, publisher = Sealer(runs, SealRule(0.0, 0.0, 0.0)), Publisher(runs)
    for _ in range(2):  # the others have their lines in the database
        assert sealer.seal_next()
    while publisher.publish_runs():
        pass
    publisher.publish_indexes()
    with Store(ClusterCatalog(runs, cache=there)) as store:
        store.runs()
        store.remove(store.run(world.deleted.id))
        for project, mark in world.boards.items():
            store.boards.save(project, Board(mark.text), None)


def _stored(runs: ClusterRuns, project: str) -> str:
    """A digest of what a database has of a project."""
    of_runs = "run in (select id from epochal.runs where project = %(project)s)"
    conditions = {
        "runs": "project = %(project)s",
        "documents": "kind = 'board' and key like %(project)s || '/%%'",
        **dict.fromkeys(("parts", "lines", "blobs", "uploads", "readings", "metrics"), of_runs),
    }

    def work(cursor: Any) -> str:
        texts = [
            f"select string_agg(t::text, ';' order by t::text) from epochal.{table} t where {where}"
            for table, where in conditions.items()
        ]
        return repr([cursor.execute(text, {"project": project}).fetchone() for text in texts])

    return hashlib.sha256(runs.database.run(work).encode()).hexdigest()


@pytest.mark.parametrize(
    "opened", [hub_of_a_folder, pytest.param(hub_that_is_shared, marks=pytest.mark.slow)]
)
def test_a_hub_shows_everybody_what_they_may_see(
    opened: Callable[[World], AbstractContextManager[Hub]], world: World
) -> None:
    with opened(world) as hub:
        _check_hub(hub, world)


def _check_hub(hub: Hub, world: World) -> None:
    ledger, links = hub.ledger, Links(hub.ledger.documents)
    one, beta = world.alpha[0], world.beta[0]
    everything = world.marks_of(["alpha", "beta"])
    strange = list(world.stray_words())
    revoked = ledger.add_token("revoked", "admin")
    ledger.revoke_token("revoked")

    def hidden(*seen: Mark) -> list[Mark]:
        return [mark for mark in (*everything, *world.marks_outside) if mark not in seen]

    def of(project: str) -> list[Mark]:
        return hidden(*world.marks_of([project]))

    ended = links.make([one.id], until=time.time() - 60)
    link = links.make([one.id], until=time.time() + 3600)
    to_beta, to_alpha = [*world.words(beta), *strange], [*world.words(one), *strange]
    to_others = [*world.words(world.alpha[1]), Word(beta.id)]
    roles = [
        Role("nobody", None, one, hidden(), to_alpha[:1], sees=()),
        Role("revoked", revoked, one, hidden(), to_alpha[:1], sees=()),
        Role("expired", ended, one, hidden(), to_alpha[:1], sees=()),
        Role("reader", ledger.add_token("reader", "read", ["beta"]), beta, of("beta"), to_alpha),
        # Nothing can be compared with the only run of a link.
        Role("link", link, one, hidden(one.mark), to_others, _SEEN[:-1]),
        Role("writer", ledger.add_token("writer", "write", ["alpha"]), one, of("alpha"), to_beta),
        Role("admin", ledger.add_token("admin", "admin"), one, world.marks_outside, strange),
    ]
    address = ServerAddress("http://localhost:1", "localhost", 1, None, names=LOOPBACK)
    controls = HubControls(ledger, is_allowed=True)
    receiving = Receiving(hub.runs.inbox, ledger, controls)
    app = create_hub(hub.runs, ledger, address, allow_control=True)
    server = Server(app, routes_of(receiving))
    before = _digest([world.outside]), hub.state()

    async def main() -> None:
        async with running(app):
            await check(server, roles)

    asyncio.run(main())
    receiving.close()
    assert (_digest([world.outside]), hub.state()) == before
    _check_seen(server, roles)


def _check_seen(server: Server, roles: Sequence[Role]) -> None:
    """Everybody saw their own run in every kind of answer, so a leak would have been seen too."""
    for role in roles:
        seen = {path for name, path in server.seen if name == role.name}
        if role.sees:
            assert not set(role.sees) - seen, f"{role.name} saw only {sorted(seen)}"
        else:
            assert not seen, f"{role.name} saw {sorted(seen)}"


def test_a_server_of_one_person_shows_the_folder_it_was_started_on(world: World) -> None:
    one = world.alpha[0]
    everything = [*world.marks_of(["alpha", "beta"]), *world.marks_outside]
    strange = list(world.stray_words())
    roles = [
        Role("nobody", None, one, everything, [*world.words(one)][:1], sees=()),
        Role("owner", "a token", one, world.marks_outside, strange),
    ]
    app = create_app(
        lambda: folder_store(world.root),
        access=Access(token="a token", port=1),
        write_archive=write_archive,
    )
    server = Server(app, routes_of())
    before = _digest([world.outside, world.root / "beta"])

    async def main() -> None:
        async with running(app):
            await check(server, roles)

    asyncio.run(main())
    assert _digest([world.outside, world.root / "beta"]) == before
    _check_seen(server, roles)
