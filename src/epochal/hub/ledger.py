"""What a hub knows beside the runs: tokens, links, owners of runs, requests, who changed what."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from epochal.base.atomic_file import between_processes
from epochal.errors import UsageError
from epochal.hub.documents import FOLDER, Body, Documents, FolderDocuments, Recent
from epochal.journal.layout import slugify
from epochal.server.access import Principal, Role

_TOKEN_BYTES = 32  # 256 random bits
_PREFIX = "ep_"
_MOST_REQUESTS = 20
# A companion asks every second; longer ago, it has ended or may not obey.
_LISTENS_S = 15.0


@contextlib.contextmanager
def only_hub(root: Path) -> Iterator[None]:
    """Be the only hub of a folder; another one raises ``UsageError``.

    A hub counts lines in memory: two that receive one run could store the same lines.
    """
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(between_processes(root / FOLDER / "lock", waits=False))
        except BlockingIOError:
            raise UsageError(
                f"another hub is running over {root}: stop it first, or give this one another"
                " folder."
            ) from None
        yield


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it is listed: never the token itself."""

    name: str
    role: Role
    projects: frozenset[str] | None
    created: float
    revoked: float | None


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What someone asked of a training; ``taken`` is when its companion took it."""

    id: str
    run: str
    action: str
    who: str
    t: float
    taken: float | None = None
    taker: str | None = None
    outcome: str | None = None
    is_done: bool = False


class Ledger:
    """Safe to use from several threads, and from a command beside a running hub.

    ``hub`` is the folder of a hub, or the documents of a cluster.
    """

    def __init__(self, hub: Path | Documents) -> None:
        self.documents = FolderDocuments(hub) if isinstance(hub, Path) else hub
        # Of changes that depend on what is stored.
        self._lock = threading.Lock()
        self._tokens = Recent(self.documents, "token")
        self._asked = Recent(self.documents, "asked")
        # When the companion of each run asked for requests last.
        self._heard: dict[str, float] = {}

    def close(self) -> None:
        """Close the file."""
        self.documents.close()

    # -- tokens -----------------------------------------------------------------------------------

    def add_token(self, name: str, role: Role, projects: Iterable[str] | None = None) -> str:
        """Make a token and return it; only its digest is stored.

        The name of a token that was revoked may be used again.
        """
        if not name or len(name) > 100 or not name.isprintable():
            raise UsageError("name must have 1 to 100 printable characters.")
        token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        only = None if projects is None else sorted(projects)
        with self._lock:
            before = self.documents.get("token", name)
            if before is not None and before["revoked"] is None:
                raise UsageError(
                    f"there is a token named {name!r} already: revoke it first, or take another"
                    " name."
                )
            new = {"role": role, "projects": only, "sha256": _digest(token).hex()}
            self._tokens.put(name, {**new, "created": time.time(), "revoked": None})
        return token

    def revoke_token(self, name: str) -> None:
        """Refuse a token from now on; its name stays with what it did."""
        with self._lock:
            token = self.documents.get("token", name)
            if token is None or token["revoked"] is not None:
                raise UsageError(f"there is no valid token named {name!r}.")
            self._tokens.put(name, {**token, "revoked": time.time()})

    def tokens(self) -> list[TokenRow]:
        """Every token, the newest last."""
        rows = [
            TokenRow(name, one["role"], _projects(one), one["created"], one["revoked"])
            for name, one in self.documents.all("token")
        ]
        return sorted(rows, key=lambda row: row.created)

    def principal(self, token: str) -> Principal | None:
        """Whose token this is; None for one that is unknown or revoked."""
        given = _digest(token)
        found: Principal | None = None
        # Every digest is compared, each in constant time: the time says nothing about any of them.
        for name, one in self._tokens.bodies().items():
            is_given = hmac.compare_digest(given, bytes.fromhex(one["sha256"]))
            if is_given and one["revoked"] is None:
                found = Principal(name, one["role"], _projects(one))
        return found

    # -- runs -------------------------------------------------------------------------------------

    def writer_of(self, run_id: str) -> str | None:
        """Who sent a run first."""
        claim = self.documents.get("claim", run_id)
        return None if claim is None else str(claim["writer"])

    def claim(self, run_id: str, project: str, writer: str) -> None:
        """Note who sends a run."""
        self.documents.put("claim", run_id, {"project": project, "writer": writer})

    def project_of(self, run_id: str) -> str | None:
        """The project that a run came in or was deleted from; None for an id that nobody had."""
        for kind in ("removed", "claim"):
            known = self.documents.get(kind, run_id)
            if known is not None and known.get("project") is not None:
                return slugify(known["project"])
        return None

    def note_removed(self, run_id: str, project: str) -> None:
        """Note that a run was deleted here, so that its sender does not bring it back."""
        self.documents.put("removed", run_id, {"t": time.time(), "project": project})

    def removed_at(self, run_id: str) -> float | None:
        """When a run was deleted here; None for one that was not."""
        removed = self.documents.get("removed", run_id)
        return None if removed is None else float(removed["t"])

    def forget_removed(self, run_id: str) -> None:
        """Receive a run again that was deleted here."""
        self.documents.put("removed", run_id, None)

    # -- requests to control a training -----------------------------------------------------------

    def add_request(self, run_id: str, action: str, who: str, *, now: float) -> RequestRow:
        """Keep what someone asks of a training, until its companion takes it."""
        row = RequestRow(_key_at(int(now * 1e9)), run_id, action, who, now)
        self._put_request(row)
        self._asked.put(run_id, {"t": now})
        return row

    def take_requests(
        self, run_id: str, *, taker: str | None = None, now: float, since: float
    ) -> list[RequestRow]:
        """The requests made since a time that were not taken.

        ``taker`` gets those again that it took, until it has said what became of them: an answer
        may be lost on its way.
        """
        asked = self._asked.bodies().get(run_id)
        if asked is None or asked["t"] < since:  # nearly always: nothing else is read
            return []
        found: list[RequestRow] = []
        with self._lock:
            for row in reversed(self.requests(run_id)):
                is_free = row.taken is None or (taker is not None and row.taker == taker)
                if is_free and row.outcome is None and row.t >= since:
                    found.append(replace(row, taken=row.taken or now, taker=taker))
            for row in found:
                self._put_request(row)
        return found

    def end_request(self, run_id: str, request_id: str, outcome: str, *, is_done: bool) -> bool:
        """Note the outcome of a request that was taken; False where it has one, or is another's."""
        with self._lock:
            body = self.documents.get("request", f"{run_id}/{request_id}")
            row = None if body is None else RequestRow(**body)
            if row is None or row.taken is None or row.outcome is not None:
                return False
            self._put_request(replace(row, outcome=outcome, is_done=is_done))
        return True

    def requests(self, run_id: str) -> list[RequestRow]:
        """The newest requests of a run, the newest first."""
        found = self.documents.all("request", prefix=f"{run_id}/", limit=_MOST_REQUESTS)
        return [RequestRow(**body) for _, body in found]

    def _put_request(self, row: RequestRow) -> None:
        self.documents.put("request", f"{row.run}/{row.id}", asdict(row))

    def hear(self, run_id: str) -> None:
        """Note that the companion of a run asks for requests."""
        self._heard[run_id] = time.time()

    def hears(self, run_id: str) -> bool:
        """Whether the companion of a run has just asked for requests."""
        return time.time() - self._heard.get(run_id, 0.0) < _LISTENS_S

    # -- audit ------------------------------------------------------------------------------------

    def note(self, who: str, what: str, *, run: str | None = None, details: str = "") -> None:
        """Add a line to the audit log."""
        line = {"t": time.time(), "who": who, "what": what, "run": run, "details": details}
        self.documents.put("audit", _key_at(time.time_ns()), line)

    def audit(self, *, limit: int = 1000) -> list[dict[str, Any]]:
        """The newest lines of the audit log, the newest first."""
        return [line for _, line in self.documents.all("audit", limit=limit)]


def _key_at(ns: int) -> str:
    """A key that sorts by time, and that no other hub makes."""
    return f"{ns:020d}-{secrets.token_hex(4)}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _projects(token: Body) -> frozenset[str] | None:
    return None if token["projects"] is None else frozenset(token["projects"])


def sender_of(folder: Path, run_id: str) -> str | None:
    """The name of the token that sent a run to a hub; None for a folder that no hub received."""
    for root in folder.parents[:2]:
        if (root / FOLDER / "hub.sqlite").is_file():
            with contextlib.closing(Ledger(root)) as ledger:
                return ledger.writer_of(run_id)
    return None


_LINK_PREFIX = "share_"
_LINKS_KEY = "links-key"
_KEY_BYTES = 32
_MOST_RUNS = 500


class Links:
    """Makes and reads the links of one hub."""

    def __init__(self, documents: Documents, *, clock: Callable[[], float] = time.time) -> None:
        self._documents = documents
        self._keys = Recent(documents, _LINKS_KEY)
        self._clock = clock

    def make(self, runs: Sequence[str], *, until: float) -> str:
        """The token of a link to these runs that ends at a time in Unix seconds."""
        if not 0 < len(runs) <= _MOST_RUNS:
            raise UsageError(f"a link shows 1 to {_MOST_RUNS} runs, not {len(runs)}.")
        said = {"runs": sorted(runs), "until": int(until)}
        body = _encode(json.dumps(said, separators=(",", ":")).encode())
        return f"{_LINK_PREFIX}{body}.{_encode(self._sign(body))}"

    def principal(self, token: str) -> Principal | None:
        """What a token of a link shows; None when it is no such token, is forged or has ended."""
        said = self._said(token)
        if said is None or self._clock() >= said["until"]:
            return None
        return Principal("shared link", "read", frozenset(), frozenset(said["runs"]))

    def refused(self, token: str) -> str | None:
        """Why a link is refused; None for a token that is not one of a link."""
        if not token.startswith(_LINK_PREFIX):
            return None
        said = self._said(token)
        if said is None:
            return "this link is not one of this hub, is not whole, or was revoked."
        ended = time.strftime("%Y-%m-%d", time.localtime(said["until"]))
        return f"this link ended on {ended}: ask who sent it for another one."

    def _said(self, token: str) -> dict[str, Any] | None:
        """What a link states; None when it is no link of this hub."""
        if not token.startswith(_LINK_PREFIX) or not token.isascii():
            return None
        body, _, signature = token[len(_LINK_PREFIX) :].partition(".")
        given = _decode(signature)
        if given is None or not hmac.compare_digest(given, self._sign(body)):
            return None
        said: dict[str, Any] = json.loads(_decode(body) or b"null")
        return said

    def revoke_all(self) -> None:
        """Make every link of this hub invalid."""
        self._keys.put("", _new_key())

    def _sign(self, body: str) -> bytes:
        key = bytes.fromhex((self._keys.bodies().get("") or self._first_key())["key"])
        return hmac.new(key, body.encode(), hashlib.sha256).digest()

    def _first_key(self) -> Body:
        """The key of all hubs over these documents, whichever of them makes it."""
        new = _new_key()
        is_first = self._documents.swap(_LINKS_KEY, "", None, new)
        return new if is_first else self._documents.get(_LINKS_KEY, "") or new


def _new_key() -> Body:
    return {"key": secrets.token_hex(_KEY_BYTES)}


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
