"""What a machine asks and tells its hub."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from epochal.base.http import TIMEOUT_S, HttpClient, HttpError, Response
from epochal.errors import UsageError
from epochal.settings import Settings
from epochal.shipping import protocol
from epochal.shipping.protocol import (
    Ack,
    ControlOutcome,
    ControlRequest,
    ControlRequests,
    FileKind,
    RunState,
    Taken,
)

Answer = TypeVar("Answer")
# A hub or a proxy that asks for more is asked again before.
_MOST_RETRY_S = 3600.0


class HubError(HttpError):
    """A hub could not be reached, or refused a request.

    ``retry_after_s`` is how long it asks to wait, ``answered`` the sentence of its answer alone.
    """

    def __init__(
        self,
        sentence: str,
        *,
        status: int = 0,
        retry_after_s: float = 0.0,
        answered: str | None = None,
    ) -> None:
        super().__init__(sentence, status=status)
        self.answered = answered or sentence
        self.retry_after_s = retry_after_s

    @property
    def is_final(self) -> bool:
        """Whether the same request would be refused again."""
        return self.status in (400, 401, 403, 404, 405, 409, 410, 413, 415, 421, 422)

    @property
    def is_busy(self) -> bool:
        """Whether a hub answered that it has too much to do: it has lost nothing."""
        return self.status == 503 and self.retry_after_s > 0

    def pause_s(self, least_s: float) -> float:
        """How long to wait before the next try: as long as the hub asks for, and some more.

        The rest is chance, so that a thousand senders do not come back in the same second.
        """
        if self.retry_after_s > least_s:
            return self.retry_after_s * random.uniform(1.0, 1.5)
        return least_s * random.uniform(0.5, 1.5)


class NotYetError(HubError):
    """What is needed is not there yet, and is expected to come."""


class HubClient(HttpClient):
    """A connection to one hub; one thread uses it."""

    def __init__(self, url: str, token: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self._token = None if token is None else check_token(token)
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        super().__init__(check_url(url), headers=headers, timeout_s=timeout_s)

    # -- sending ----------------------------------------------------------------------------------

    def register(
        self, run_id: str, identity: Mapping[str, Any], *, unless_removed: bool = False
    ) -> RunState:
        """Make a run known to the hub; what the hub has of it.

        With ``unless_removed``, the hub refuses a run that was deleted there.
        """
        body = msgspec.json.encode(identity)
        path = protocol_path(run_id) + ("?unless_removed=1" if unless_removed else "")
        return self._json("PUT", path, RunState, body=body)

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        """Send lines of a part; the number of lines of it that the hub has then."""
        path = f"{protocol_path(run_id)}/parts/{quote(stem)}?first={first}"
        headers = {protocol.SIZE_HEADER: str(len(lines)), "content-encoding": "gzip"}
        return self._json("POST", path, Ack, body=protocol.compress(lines), headers=headers).have

    def put_file(
        self,
        run_id: str,
        kind: FileKind,
        name: str,
        chunk: bytes,
        *,
        offset: int = 0,
        size: int,
        sha256: str,
    ) -> int:
        """Send a piece of a file; the number of bytes of it that the hub has then."""
        query = urlencode({"offset": offset, "size": size, "sha256": sha256})
        path = f"{protocol_path(run_id)}/{kind}/{quote(name)}?{query}"
        return self._json("PUT", path, Ack, body=chunk).have

    def merge_labels(
        self, run_id: str, labels: Mapping[str, Any], base: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send changed labels; what both sides have then."""
        body = msgspec.json.encode({"labels": labels, "base": base})
        path = f"{protocol_path(run_id)}/labels"
        merged: dict[str, Any] = self._json("PUT", path, dict, body=body)
        return merged

    def put_summary(self, run_id: str, summary: bytes) -> bool:
        """Send ``summary.json``; whether the hub has taken it."""
        return self._json("PUT", f"{protocol_path(run_id)}/summary", Taken, body=summary).is_taken

    def put_metrics(self, run_id: str, metrics: bytes) -> bool:
        """Send ``metrics.json``; whether the hub has taken it."""
        return self._json("PUT", f"{protocol_path(run_id)}/metrics", Taken, body=metrics).is_taken

    # -- control ----------------------------------------------------------------------------------

    def ask(self, run_id: str, action: str) -> dict[str, Any]:
        """Leave a request for the training of a run; the request as the hub keeps it."""
        path, headers = _control_path(run_id), {"content-type": "application/json"}
        body = msgspec.json.encode({"action": action})
        asked: dict[str, Any] = self._json("POST", path, dict, body=body, headers=headers)
        return asked

    def asked(self, run_id: str, request_id: str) -> dict[str, Any] | None:
        """What became of a request so far; None for one that is no longer among the newest."""
        found = self.get_json(_control_path(run_id))["requests"]
        return next((one for one in found if one["id"] == request_id), None)

    def take_requests(self, run_id: str, *, taker: str | None = None) -> list[ControlRequest]:
        """Take what people ask of the training of a run.

        The hub hands each out once; to a ``taker`` again, until that one has reported its outcome.
        """
        query = "" if taker is None else f"?by={quote(taker, safe='')}"
        path = f"{protocol_path(run_id)}/control/take{query}"
        return self._json("POST", path, ControlRequests, body=b"").requests

    def report_outcome(self, run_id: str, request_id: str, outcome: ControlOutcome) -> None:
        """Say what became of a request."""
        path = f"{protocol_path(run_id)}/control/{quote(request_id, safe='')}"
        self.request("PUT", path, body=msgspec.json.encode(outcome))

    # -- fetching ---------------------------------------------------------------------------------

    def state(self, run_id: str) -> RunState:
        """What the hub has of a run."""
        return self._json("GET", protocol_path(run_id), RunState)

    def launched(self, launch_id: str, project: str, *, age_s: float) -> str:
        """The id of the run that rank 0 of a launch ships; its launch began so long ago.

        Raises ``NotYetError`` while the hub knows none.
        """
        query = urlencode({"project": project, "age": int(age_s)})
        path = f"/api/hub/launches/{quote(launch_id, safe='')}?{query}"
        try:
            return str(self.get_json(path).get("run", ""))
        except HubError as error:
            if error.status != 404:
                raise
            raise NotYetError(
                f"rank 0 of {launch_id} has sent nothing to {self.url} yet."
            ) from error

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        """Lines of a part from an ordinal on, about as many as one request holds."""
        return self.request("GET", f"{protocol_path(run_id)}/parts/{quote(stem)}?first={first}")

    def file(self, run_id: str, kind: FileKind, name: str, *, offset: int) -> bytes:
        """A piece of a file from an offset on."""
        return self.request("GET", f"{protocol_path(run_id)}/{kind}/{quote(name)}?offset={offset}")

    def get_json(self, path: str) -> dict[str, Any]:
        """The answer of any endpoint that returns a JSON object."""
        return self._json("GET", path, dict)

    # -- HTTP -------------------------------------------------------------------------------------

    def _json(
        self,
        method: str,
        path: str,
        kind: type[Answer],
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        answer = self.request(method, path, body=body, headers=headers)
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HubError(
                f"{self.url} did not answer like a hub ({error}); is the address right?", status=422
            ) from error

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of an answer; raises ``HubError`` with a sentence for any other outcome."""
        try:
            response = self.send(method, path, body=body, headers=headers)
        except HttpError as error:
            raise HubError(f"cannot reach the hub {error}") from error
        if response.status < 300:
            return response.body
        raise self._refused(response)

    def _refused(self, response: Response) -> HubError:
        sentence = response.text("error")
        if response.status == 401 and not sentence.startswith("this link"):
            sentence = (
                "it does not know this token; set EPOCHAL_HUB_TOKEN."
                if self._token
                else "it needs a token; set EPOCHAL_HUB_TOKEN."
            )
        wait = response.headers.get("retry-after", "")
        return HubError(
            f"the hub {self.url} answered {response.status}: {sentence or response.reason}",
            status=response.status,
            retry_after_s=min(float(wait), _MOST_RETRY_S) if wait.isdigit() else 0.0,
            answered=sentence,
        )


def protocol_path(run_id: str) -> str:
    """The path of a run on a hub."""
    return f"/api/hub/runs/{quote(run_id, safe='')}"


def _control_path(run_id: str) -> str:
    return f"/api/runs/{quote(run_id, safe='')}/control"


def check_url(url: str) -> str:
    """The address of a hub, without a slash at its end; a mistake is a ``UsageError``."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is not the address of a hub: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not the address of a hub; it is like https://host.")
    if parts.username or parts.password:
        raise UsageError("the address of a hub holds no password: set EPOCHAL_HUB_TOKEN instead.")
    return url.split("?")[0].split("#")[0].rstrip("/")


def check_token(token: str) -> str:
    """A token without spaces around it; a mistake is a ``UsageError`` that does not show it."""
    bare = token.strip()
    if bare.isascii() and bare.isprintable() and " " not in bare:
        return bare
    raise UsageError(
        "the token of the hub has a space, a line end or a letter that no token has: set"
        " EPOCHAL_HUB_TOKEN to the line that 'epochal hub token add' printed."
    )


# The token of this machine's hub, and how a file states a token.

_MAX_TOKEN = 4096


def hub_token(settings: Settings) -> str | None:
    """The token of the environment or of the file that the settings name."""
    if settings.hub_token is not None or settings.hub_token_file is None:
        return settings.hub_token
    return first_line(
        settings.hub_token_file, str(settings.sources.get("hub_token_file", "hub.token_file"))
    )


def linked_token(address: str) -> str | None:
    """The token of a link, ``https://host/?token=…``; None in any other address."""
    found = parse_qs(urlsplit(address).query).get("token")
    return found[0] if found else None


def first_line(path: str, named_by: str) -> str:
    """The token in the first line of a file; raises ``UsageError`` where there is none."""
    try:
        with open(Path(path).expanduser(), encoding="utf-8") as file:
            token = file.readline(_MAX_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{named_by}: cannot read {path}: {reason}.") from error
    if not token:
        raise UsageError(f"{named_by}: the first line of {path} is empty.")
    return token
