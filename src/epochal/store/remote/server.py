"""A server on another machine, as a store asks it: pages of its list, one run, changes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.labels import LabelsEdit
from epochal.journal.row import RunRow
from epochal.shipping.client import HubClient, HubError
from epochal.store.row import RunPage, packed_decoder

_PAGE_OF_RUNS = packed_decoder(RunPage)
_PAGE = 1000


class RemoteServer:
    """Connections to one server; several threads may use them."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._token = token
        self._idle = [HubClient(url, token)]
        self._lock = threading.Lock()
        self.url = self._idle[0].url

    @contextlib.contextmanager
    def client(self) -> Iterator[HubClient]:
        """A connection that no other thread uses meanwhile."""
        with self._lock:
            client = self._idle.pop() if self._idle else HubClient(self.url, self._token)
        try:
            yield client
        finally:
            with self._lock:
                self._idle.append(client)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            clients, self._idle = self._idle, []
        for client in clients:
            client.close()

    def listed(
        self,
        query: str | None = None,
        order: str | None = None,
        *,
        limit: int | None = None,
        is_fresh: bool = False,
        is_patient: bool = True,
    ) -> tuple[list[RunRow], int]:
        """A part of the list, in as many pages as it takes; and how many runs have no summary.

        With ``is_patient``, the server reads these first: a query may be about anything.
        """
        fields = {"query": query or "", "order": order or ""}
        page = self._page({**fields, "limit": 1, "fresh": int(is_fresh)})
        if is_patient and page.unsummarised:
            self._wait_until_read(page.unsummarised)
        found: dict[str, RunRow] = {}
        offset = 0
        while limit is None or len(found) < limit:
            size = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self._page({**fields, "offset": offset, "limit": size})
            # A run that was created meanwhile moves others to the next page: they come once.
            found.update({one.id: one for one in page.runs})
            offset += len(page.runs)
            if not page.runs or offset >= page.total:
                break
        return list(found.values()), page.unsummarised

    def run(self, run_id: str) -> RunRow:
        """One run, read whole; raises ``RunNotFoundError``."""
        try:
            return self._page({"run": run_id}).runs[0]
        except HubError as error:
            raise self._not_found(error, run_id) from error

    def metrics(self, run_id: str) -> bytes | None:
        """Nothing: the records say it."""
        return None

    @contextlib.contextmanager
    def reading(self, run_id: str) -> Iterator[HubClient]:
        """A connection that reads one run; raises ``RunNotFoundError`` where it is not there."""
        with self.client() as client:
            try:
                yield client
            except HubError as error:
                raise self._not_found(error, run_id) from error

    def relabel(self, run_id: str, edit: LabelsEdit) -> None:
        """Edit the labels that the server has now."""
        change = asdict(edit(self.run(run_id).labels))
        self.send("PATCH", f"/api/runs/{quote(run_id, safe='')}/labels", change)

    def _not_found(self, error: HubError, run_id: str) -> Exception:
        """The error itself, or where a run is not there, the error that says so."""
        if error.status != 404:
            return error
        return RunNotFoundError(f"there is no run with the id {run_id!r} on {self.url}.")

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON answer to a request with a JSON body."""
        sent = None if body is None else msgspec.json.encode(body)
        headers = {} if sent is None else {"content-type": "application/json"}
        with self.client() as client:
            return msgspec.json.decode(client.request(method, path, body=sent, headers=headers))

    def _wait_until_read(self, left: int) -> None:
        """Have the server read runs that carry no summary; it does so for seconds at each call."""
        while left:
            before, left = left, self._page({"limit": 1, "patient": 1}).unsummarised
            if left >= before:
                raise HubError(f"{self.url} cannot read {left:,} of its runs now: ask later.")

    def _page(self, fields: Mapping[str, Any]) -> RunPage:
        with self.client() as client:
            try:
                answer = client.request("GET", f"/api/infos?{urlencode(fields)}")
            except HubError as error:
                if error.status == 400:
                    raise UsageError(error.answered) from error
                if error.status == 404 and "run" not in fields:
                    raise HubError(
                        f"{self.url} is no server of Epochal, or one of an older version: its runs"
                        " cannot be read from here.",
                        status=404,
                    ) from error
                raise
        try:
            return _PAGE_OF_RUNS.decode(answer)
        except msgspec.DecodeError as error:
            raise HubError(
                f"{self.url} did not answer like a server of Epochal: {error}."
            ) from error
