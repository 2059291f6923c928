"""Endpoints of a hub, which receive runs and control trainings.

``docs/explanation/hub-protocol.md`` describes them.
"""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import time
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from epochal.errors import FormatError, UsageError
from epochal.hub.admission import Admission
from epochal.hub.counters import HubCounters
from epochal.hub.inbox import (
    BusyError,
    ConflictError,
    Inbox,
    RemovedError,
    UnknownRunError,
    other_project,
)
from epochal.hub.ledger import Ledger, RequestRow
from epochal.hub.limits import FullError
from epochal.hub.summaries import MOST_METRICS_BYTES, MOST_SUMMARY_BYTES
from epochal.journal.labels import check_stored_labels
from epochal.journal.layout import MAX_JSON_BYTES, slugify
from epochal.server.access import Principal, Role, principal_of
from epochal.server.changes import decoded_body, read_body
from epochal.server.control import (
    Action,
    Control,
    ControlRefusedError,
    ControlRequest,
    RequestState,
)
from epochal.server.reader import ThreadPool
from epochal.server.responses import error_response
from epochal.shipping import protocol
from epochal.store.bucket import BucketError
from epochal.store.cluster.database import CatalogAwayError

# Requests to control trainings: kept here until the companion of the run takes them.
#
# A request is for the companion that takes it first, which gets it again until it has reported an
# outcome, and only for ten minutes: a run that comes back a week later goes on.

_MAX_OUTCOME = 1000


class HubControls:
    """The requests of one hub; ``is_allowed`` is its option --allow-control."""

    def __init__(
        self, ledger: Ledger, *, is_allowed: bool, clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger = ledger
        self._is_allowed = is_allowed
        self._clock = clock

    # -- people -----------------------------------------------------------------------------------

    def of(self, run_id: str, who: Principal) -> Control:
        """What this person may ask of a run that they see, and what was asked."""
        return Control(
            allowed=self._is_allowed and _may_control(who),
            listens=self._ledger.hears(run_id),
            # Who asked is nothing for those who were only sent a link.
            requests=[]
            if who.runs is not None
            else [self._shown(row) for row in self._ledger.requests(run_id)],
        )

    def ask(
        self, run_id: str, action: Action, who: Principal, *, is_live: bool = True
    ) -> ControlRequest | None:
        """Keep a request about a run that this person sees; one that waits is not doubled.

        None for a run that has ended; raises ``ControlRefusedError``.
        """
        self._check_allowed()
        if not _may_control(who):
            raise ControlRefusedError(f"the token {who.name!r} may {who.role}, not write.")
        if not is_live:
            return None
        for row in self._ledger.requests(run_id):
            shown = self._shown(row)
            if shown.state == "waiting" and row.action == action:
                return shown
        row = self._ledger.add_request(run_id, action, who.name, now=self._clock())
        self._ledger.note(who.name, f"control {action}", run=run_id, details=f"request {row.id}")
        return self._shown(row)

    # -- companions -------------------------------------------------------------------------------

    def take(self, run_id: str, taker: str | None = None) -> list[protocol.ControlRequest]:
        """The requests that wait for a run, and those whose outcome ``taker`` has not reported."""
        self._check_allowed()
        self._ledger.hear(run_id)
        now = self._clock()
        since = now - protocol.CONTROL_EXPIRES_S
        rows = self._ledger.take_requests(run_id, taker=taker, now=now, since=since)
        return [
            protocol.ControlRequest(row.id, row.action, row.who, row.t, max(0.0, now - row.t))
            for row in rows
        ]

    def end(self, run_id: str, request_id: str, who: str, outcome: str, *, is_done: bool) -> bool:
        """Note the outcome of a request; False for one that is unknown or has ended."""
        said = outcome[:_MAX_OUTCOME]
        if not self._ledger.end_request(run_id, request_id, said, is_done=is_done):
            return False
        details = f"request {request_id}: {said}"
        self._ledger.note(who, "control outcome", run=run_id, details=details)
        return True

    def _check_allowed(self) -> None:
        if not self._is_allowed:
            raise ControlRefusedError(
                "this hub controls no trainings: it was started without --allow-control."
            )

    def _shown(self, row: RequestRow) -> ControlRequest:
        state: RequestState
        if row.outcome is not None:
            state = "done" if row.is_done else "failed"
        elif row.taken is not None:
            state = "taken"
        else:
            is_late = self._clock() - row.t > protocol.CONTROL_EXPIRES_S
            state = "expired" if is_late else "waiting"
        return ControlRequest(row.id, cast(Action, row.action), row.who, row.t, state, row.outcome)


def _may_control(who: Principal) -> bool:
    """Whoever sees a run may control it with the role write; a shared link never."""
    return who.runs is None and who.may("write")


_CLOSE_TIMEOUT_S = 5.0
_MOST_DIGITS = 18
_RETRY_FULL_S = 60
Value = TypeVar("Value")
P = ParamSpec("P")
Handler = Callable[[Request], Awaitable[Response]]


class Receiving:
    """The handlers; each checks who asks before anything is read or written.

    ``admission`` says how many requests are taken on, and how many of them wait at once for the
    disk, which writes what many wait for together.
    """

    def __init__(
        self,
        inbox: Inbox,
        ledger: Ledger,
        controls: HubControls,
        *,
        admission: Admission | None = None,
        counters: HubCounters | None = None,
    ) -> None:
        self._inbox = inbox
        self._ledger = ledger
        self._controls = controls
        self._admission = Admission(inbox.num_threads) if admission is None else admission
        self._counters = HubCounters() if counters is None else counters
        self._pool = ThreadPool("epochal-receive", self._admission.num_threads)
        self._counters.gauge(
            "queue_requests",
            "Requests of senders that are being received or wait.",
            lambda: self._admission.num_requests,
        )
        self._counters.gauge(
            "queue_bytes", "Bytes of their bodies.", lambda: self._admission.num_bytes
        )

    def close(self) -> None:
        """End the threads: no request follows."""
        self._pool.close(timeout_s=_CLOSE_TIMEOUT_S)

    def routes(self) -> list[Route]:
        """The routes of the server that receives."""
        run, part = "/api/hub/runs/{run_id}", "/api/hub/runs/{run_id}/parts/{stem}"
        file = "/api/hub/runs/{run_id}/{kind:str}/{name}"
        return [
            Route(part, self._answering(self.append), methods=["POST"]),  # nearly all requests
            Route(run, self._answering(self.register), methods=["PUT"]),
            Route(run, self._answering(self.state), methods=["GET"]),
            Route("/api/hub/launches/{launch_id}", self._answering(self.launched), methods=["GET"]),
            Route(part, self._answering(self.lines), methods=["GET"]),
            Route(f"{run}/labels", self._answering(self.put_labels), methods=["PUT"]),
            Route(f"{run}/summary", self._answering(self.put_summary), methods=["PUT"]),
            Route(f"{run}/metrics", self._answering(self.put_metrics), methods=["PUT"]),
            Route(f"{run}/control/take", self._answering(self.take_requests), methods=["POST"]),
            Route(
                f"{run}/control/{{request_id}}", self._answering(self.end_request), methods=["PUT"]
            ),
            Route(file, self._answering(self.put_file), methods=["PUT"]),
            Route(file, self._answering(self.file), methods=["GET"]),
        ]

    async def register(self, request: Request) -> Response:
        """``PUT …/{run_id}``: who a run is; answers what is here of it."""
        run_id = request.path_params["run_id"]
        body = await read_body(request, MAX_JSON_BYTES)
        identity = decoded_body(body, dict)
        named = identity.get("project")
        project = named if isinstance(named, str) else ""
        who = principal_of(request)
        _check(who, "write", project)

        def register() -> Any:
            known = self._inbox.project_of(run_id)
            # An id stays with the project in which it came, also while its run is in the trash.
            owner = self._ledger.project_of(run_id) if known is None else known
            if owner is not None and not who.may("write", owner):
                # Its project stays unsaid: whoever asks may not see it.
                raise _ForbiddenError(f"the token {who.name!r} may not write the run {run_id}.")
            if known is None and owner is not None and owner != slugify(project):
                # Other hubs may remember for a while in which project it was.
                raise other_project(run_id, owner)
            if owner is not None and known is None:
                is_refused = request.query_params.get("unless_removed") == "1"
                known = self._restored(run_id, is_refused=is_refused)
            if known is None:  # its first bytes are charged to somebody
                self._ledger.claim(
                    run_id, protocol.checked_identity(run_id, identity)["project"], who.name
                )
            state = self._inbox.register(run_id, identity, writer=who.name)
            if known is None:
                self._ledger.note(who.name, "register", run=run_id, details=state.folder)
            return state

        return _json(await self._unless_gone(request, register))

    async def state(self, request: Request) -> Response:
        """``GET …/{run_id}``: what is here of a run."""
        run_id = await self._allowed(request, "read")
        return _json(await self._in_thread(self._inbox.state, run_id))

    async def launched(self, request: Request) -> Response:
        """``GET …/launches/{launch_id}?project=P&age=S``: the run that rank 0 of a launch sends."""
        project = request.query_params.get("project", "")
        _check(principal_of(request), "write", project)
        launch_id, age_s = request.path_params["launch_id"], _number(request, "age")
        run_id = await self._in_thread(self._inbox.launched, launch_id, project, age_s=age_s)
        return _json({"run": run_id})

    async def append(self, request: Request) -> Response:
        """``POST …/parts/{stem}?first=N``: lines of a part; answers how many are on the disk."""
        run_id = await self._allowed(request, "write")
        first = _number(request, "first")
        size = _whole_number(protocol.SIZE_HEADER, request.headers.get(protocol.SIZE_HEADER, ""))
        encoding = request.headers.get("content-encoding", "")

        def append(body: bytes) -> int:
            lines = protocol.decompress(encoding, body, size=size)
            self._counters.receive(lines)
            return self._inbox.append(run_id, request.path_params["stem"], first=first, lines=lines)

        body = await read_body(request, protocol.MAX_LINES_BYTES)
        return _json(protocol.Ack(await self._unless_gone(request, append, body)))

    async def lines(self, request: Request) -> Response:
        """``GET …/parts/{stem}?first=N``: lines of a part."""
        run_id, stem = await self._allowed(request, "read"), request.path_params["stem"]
        first = _number(request, "first")
        lines = await self._in_thread(self._inbox.lines, run_id, stem, first=first)
        return Response(lines, media_type="application/x-ndjson")

    async def put_file(self, request: Request) -> Response:
        """``PUT …/segments/{name}``: a piece of a segment, a blob, or newest readings."""
        run_id, kind = await self._allowed(request, "write"), request.path_params["kind"]
        offset, size = _number(request, "offset"), _number(request, "size")
        sha256 = request.query_params.get("sha256", "").lower()
        if len(sha256) != 64 or not all(one in "0123456789abcdef" for one in sha256):
            raise UsageError("sha256 must be the 64 hexadecimal digits of the file's digest.")
        have = await self._unless_gone(
            request,
            self._inbox.put_file,
            run_id,
            cast(protocol.FileKind, kind),
            request.path_params["name"],
            await read_body(request, protocol.MAX_BODY_BYTES),
            offset=offset,
            size=size,
            sha256=sha256,
        )
        return _json(protocol.Ack(have))

    async def file(self, request: Request) -> Response:
        """``GET …/segments/{name}?offset=N``: a piece of a file."""
        run_id, kind = await self._allowed(request, "read"), request.path_params["kind"]
        name, offset = request.path_params["name"], _number(request, "offset")
        piece = await self._in_thread(
            self._inbox.file, run_id, cast(protocol.FileKind, kind), name, offset=offset
        )
        return Response(piece, media_type="application/octet-stream")

    async def put_labels(self, request: Request) -> Response:
        """``PUT …/labels``: labels that a person changed elsewhere; answers the merged ones."""
        run_id = await self._allowed(request, "write")
        body = await read_body(request, protocol.MAX_BODY_BYTES)
        offer = decoded_body(body, protocol.LabelsOffer)
        check_stored_labels(offer.labels)
        who = principal_of(request).name

        def note(fields: list[str]) -> None:
            self._ledger.note(who, "labels", run=run_id, details=", ".join(fields))

        put, both = self._inbox.put_labels, (offer.labels, offer.base)
        return _json(await self._unless_gone(request, put, run_id, *both, on_change=note))

    async def put_summary(self, request: Request) -> Response:
        """``PUT …/summary``: ``summary.json`` as the sender has it."""
        run_id = await self._allowed(request, "write")
        body = await read_body(request, MOST_SUMMARY_BYTES)
        put = self._inbox.put_summary
        return _json(protocol.Taken(await self._unless_gone(request, put, run_id, body)))

    async def put_metrics(self, request: Request) -> Response:
        """``PUT …/metrics``: ``metrics.json`` as the sender has it."""
        run_id = await self._allowed(request, "write")
        body = await read_body(request, MOST_METRICS_BYTES)
        put = self._inbox.put_metrics
        return _json(protocol.Taken(await self._unless_gone(request, put, run_id, body)))

    async def take_requests(self, request: Request) -> Response:
        """``POST …/control/take?by=ID``: what people ask of the training; ``by`` takes it."""
        run_id = await self._allowed(request, "write")
        taker = request.query_params.get("by")
        if taker is not None and not protocol.is_run_id(taker):
            raise UsageError(f"by must be an id, not {taker!r}.")
        taken = await self._in_thread(self._controls.take, run_id, taker)
        return _json(protocol.ControlRequests(taken))

    async def end_request(self, request: Request) -> Response:
        """``PUT …/control/{request_id}``: what became of a request."""
        run_id = await self._allowed(request, "write")
        body = await read_body(request, protocol.MAX_BODY_BYTES)
        said = decoded_body(body, protocol.ControlOutcome)
        which = (run_id, request.path_params["request_id"], principal_of(request).name)
        end = self._controls.end
        if not await self._in_thread(end, *which, said.outcome, is_done=said.is_done):
            return error_response(404, "there is no such request that waits for its outcome.")
        return _json({})

    def _restored(self, run_id: str, *, is_refused: bool) -> str | None:
        """The project of a run that was deleted here and restored; None for one that is new.

        One that is still deleted comes back, or raises ``RemovedError`` where it ``is_refused``.
        """
        removed = self._ledger.removed_at(run_id)
        if removed is None:
            return None
        self._inbox.rescan()
        known = self._inbox.project_of(run_id)
        if known is None and is_refused:
            date = time.strftime("%Y-%m-%d", time.localtime(removed))
            raise RemovedError(
                f"the run {run_id} was deleted on this hub on {date}:"
                " 'epochal hub push' without --watch sends it again."
            )
        self._ledger.forget_removed(run_id)
        return known

    async def _in_thread(self, call: Callable[P, Value], *args: P.args, **named: P.kwargs) -> Value:
        """What a call returns that waits for the disk."""
        with self._admission.working():
            return await self._pool.call(functools.partial(call, *args, **named))

    async def _unless_gone(
        self, request: Request, call: Callable[P, Value], *args: P.args, **named: P.kwargs
    ) -> Value:
        """The same for a request whose body was read; one that waits ends with its sender.

        Raises ``ClientDisconnect`` then: nobody waits for the work.
        """
        must_wait = self._admission.is_waiting
        working = asyncio.ensure_future(self._in_thread(call, *args, **named))
        if not must_wait:
            return await working
        gone = asyncio.ensure_future(request.receive())  # nothing else comes after the body
        gone.add_done_callback(lambda _gone: working.cancel())
        try:
            return await working
        except asyncio.CancelledError:
            if gone.done() and not gone.cancelled():
                raise ClientDisconnect from None
            raise
        finally:
            gone.cancel()

    def _answering(self, handler: Handler) -> Handler:
        """A handler that is admitted, and whose expected faults are answered with a sentence."""

        async def answer(request: Request) -> Response:
            outcome = "failed"
            try:
                with self._admission.admitted(_body_bytes(request)):
                    response = await handler(request)
                outcome = "accepted"
            except ClientDisconnect:
                outcome = "gone"
                raise
            except HTTPException:
                outcome = "refused"
                raise
            except _EXPECTED as error:
                response = self._refusal(error)
                outcome = _OUTCOMES.get(response.status_code, "refused")
            finally:
                self._counters.requests.add(label=outcome)
            return response

        return answer

    def _refusal(self, error: Exception) -> Response:
        sentence, status, wait_s = str(error), 400, None
        if isinstance(error, (_ForbiddenError, ControlRefusedError)):
            status = 403
        elif isinstance(error, UnknownRunError):
            status = 404
        elif isinstance(error, ConflictError):
            status = 409
        elif isinstance(error, RemovedError):
            status = 410
        elif isinstance(error, (BusyError, CatalogAwayError, BucketError)):
            status, wait_s = 503, self._admission.retry_after_s()
        elif isinstance(error, FullError):
            status, wait_s = 507, _RETRY_FULL_S
        elif isinstance(error, (OSError, sqlite3.OperationalError)):
            reason = str(getattr(error, "strerror", None) or error).rstrip(".")
            sentence, status = f"the hub could not store this: {reason}.", 507
            wait_s = _RETRY_FULL_S
        headers = {} if wait_s is None else {"retry-after": str(wait_s)}
        return error_response(status, sentence, headers=headers)

    async def _allowed(self, request: Request, role: Role) -> str:
        """The id of the run of a request, if who asks may do this with it."""
        run_id: str = request.path_params["run_id"]
        project = self._inbox.known_project(run_id)
        if project is None:
            project = await self._in_thread(self._inbox.project_of, run_id)
        who = principal_of(request)
        is_seen = project is not None and who.may("read", project)
        if project is None or not (is_seen if who.runs is None else run_id in who.runs):
            # The same answer for a run that does not exist: its existence is nobody's business.
            raise UnknownRunError(f"the hub does not know the run {run_id}.")
        _check_role(who, role)
        return run_id


class _ForbiddenError(UsageError):
    """The token may not do this."""


def _check_role(who: Principal, role: Role) -> None:
    if not who.may(role):
        raise _ForbiddenError(f"the token {who.name!r} may {who.role}, not {role}.")


def _check(who: Principal, role: Role, project: str) -> None:
    """Raise unless someone may do this in a project, which is named as its sender names it."""
    _check_role(who, role)
    if not who.may(role, slugify(project)):
        raise _ForbiddenError(f"the token {who.name!r} is not for the project {project!r}.")


# What a request may do wrong, and what may be wrong with the disk, the database or the bucket.
_EXPECTED = (
    ControlRefusedError,
    UnknownRunError,
    ConflictError,
    RemovedError,
    BusyError,
    CatalogAwayError,
    BucketError,
    FullError,
    FormatError,
    UsageError,
    OSError,
    sqlite3.OperationalError,
)
_OUTCOMES = {503: "busy", 507: "full"}


def _body_bytes(request: Request) -> int:
    """How much memory the body of a request may take, as far as it says so."""
    length = request.headers.get("content-length", "")
    is_known = length.isdigit() and len(length) <= _MOST_DIGITS
    if is_known:
        return min(int(length), protocol.MAX_LINES_BYTES)
    return 0 if request.method == "GET" else protocol.MAX_BODY_BYTES


def _number(request: Request, name: str) -> int:
    return _whole_number(name, request.query_params.get(name, "0"))


def _whole_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise UsageError(f"{name} must be a whole number, not {text!r}.")
    return int(text)


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
