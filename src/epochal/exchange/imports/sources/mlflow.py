"""Runs of an MLflow server, read over its REST interface; the package mlflow is not needed.

The address is the one of ``MLFLOW_TRACKING_URI``, or the one in the browser: behind
``#/experiments/<id>`` or ``#/experiments/<id>/runs/<run>`` only that experiment or run is read.
``MLFLOW_TRACKING_USERNAME`` and ``MLFLOW_TRACKING_PASSWORD`` or ``MLFLOW_TRACKING_TOKEN`` are sent
as MLflow's own client sends them.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

import msgspec

from epochal.base.atomic_file import temporary_folder
from epochal.base.http import HttpClient, HttpError, Response, basic
from epochal.errors import UsageError
from epochal.exchange.imports.foreign import (
    Batch,
    FileRun,
    FileSignature,
    Identity,
    RecordList,
    stable_id,
)
from epochal.exchange.imports.formats.mlflow import (
    artifact_records,
    finish_record,
    identity_of,
    importable,
    restored,
    summary_records,
)
from epochal.exchange.imports.media import MediaReader
from epochal.exchange.imports.values import SummaryReader, json_value, unix_seconds
from epochal.records import Record

_LABEL = "MLflow"
_API = "/api/2.0/mlflow"
_RUNS_PER_PAGE = 500
_EXPERIMENTS_PER_REQUEST = 100
_POINTS_PER_PAGE = 25_000
_MAX_POINTS_HELD = 1_000_000
_MAX_PAGES = 100_000
_MAX_FILES = 1000
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HELP_401 = "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN."
_MAX_BYTES = 128 << 20
_MAX_MESSAGE = 300
# A server that is overloaded or being restarted says so, and is asked again after these times.
_BUSY = frozenset({429, 502, 503, 504})
_WAITS_S = (0.5, 2.0)
_WITHIN = re.compile(r"/experiments/(?P<experiment>[^/?]+)(?:/runs/(?P<run>[0-9a-zA-Z_-]+))?")
_Row = Mapping[str, Any]


def find(place: str) -> MlflowServer | None:
    """The runs of a server; None for a path."""
    return MlflowServer(place) if _ADDRESS.match(place) else None


class MlflowServer:
    """The runs at an address; nothing is asked before ``runs``."""

    label = _LABEL

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{address!r} is no address of a server: name one like http://localhost:5000."
            )
        within = _WITHIN.match(unquote(parts.fragment))
        if parts.fragment.strip("/") and within is None:
            raise UsageError(
                f"'#{parts.fragment}' is no experiment or run: end the address before '#',"
                " or name one like http://localhost:5000/#/experiments/1."
            )
        self._experiment: str | None = within["experiment"] if within else None
        self._run: str | None = within["run"] if within else None
        host = parts.netloc.rpartition("@")[2]
        self.path = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        headers = {"Accept": "application/json", **_credentials(parts.username, parts.password)}
        context = _tls_context()
        self._api = _Api(self.path, headers=headers, context=context, most_bytes=_MAX_BYTES)

    def runs(self) -> Sequence[MlflowServerRun]:
        """Every run that is not deleted, by experiment, the oldest first."""
        if self._run is not None:
            row = _object(self._api.get(f"{_API}/runs/get", {"run_id": self._run}), "run")
            names = self._experiment_names(str(_object(row, "info").get("experiment_id")))
            rows: Iterable[_Row] = [row]
        else:
            names = self._experiment_names(self._experiment)
            rows = self._rows_of(list(names))
        found = [MlflowServerRun(self._api, row, names) for row in rows]
        return sorted(found, key=lambda run: (run.identity.created or 0.0, run.key))

    def _experiment_names(self, id_: str | None) -> dict[str, str]:
        if id_ is None:
            asked: dict[str, object] = {"max_results": 1000}
            pages = _pages(self._api.post, "/experiments/search", "experiments", asked)
            rows = list(chain.from_iterable(pages))
        else:
            answer = self._api.get(f"{_API}/experiments/get", {"experiment_id": id_})
            rows = [_object(answer, "experiment")]
        return {str(row.get("experiment_id")): str(row.get("name") or "mlflow") for row in rows}

    def _rows_of(self, experiments: Sequence[str]) -> Iterator[_Row]:
        for start in range(0, len(experiments), _EXPERIMENTS_PER_REQUEST):
            ids = experiments[start : start + _EXPERIMENTS_PER_REQUEST]
            kind = {"run_view_type": "ACTIVE_ONLY", "max_results": _RUNS_PER_PAGE}
            asked = {"experiment_ids": ids, **kind}
            yield from chain.from_iterable(_pages(self._api.post, "/runs/search", "runs", asked))


class _Api(HttpClient):
    """The REST interface of one server; every fault is a sentence."""

    def __del__(self) -> None:
        self.close()

    def get(self, path: str, params: Mapping[str, object]) -> _Row:
        """The object that a GET gives; parameters that are None are left out."""
        return self._object(path, self.content(path, params))

    def post(self, path: str, body: Mapping[str, object]) -> _Row:
        """The object that a POST of a JSON object gives; fields that are None are left out."""
        return self._object(path, self._asked("POST", path, msgspec.json.encode(_given(body))))

    def content(self, path: str, params: Mapping[str, object]) -> bytes:
        """The bytes that a GET gives."""
        return self._asked("GET", f"{path}?{urlencode(_given(params))}")

    def _asked(self, method: str, path: str, body: bytes | None = None) -> bytes:
        kind = {} if body is None else {"Content-Type": "application/json"}
        for wait_s in (*_WAITS_S, None):
            try:
                response = self.send(method, path, body=body, headers=kind)
            except HttpError as error:
                raise HttpError(
                    f"cannot read from the MLflow server at {error}"
                    " Check the address and that the server runs."
                ) from error
            if response.status < 300:
                return response.body
            if response.status not in _BUSY or wait_s is None:
                break
            time.sleep(wait_s)
        raise self._refusal(path.partition("?")[0], response)

    def _refusal(self, path: str, response: Response) -> HttpError:
        server, status = f"the MLflow server at {self.url}", response.status
        if status in (401, 403):
            sentence = f"{server} refuses access (status {status}). {_HELP_401}"
        elif status < 400:
            target = response.headers.get("Location", "another address")
            sentence = f"{self.url} redirects to {target}: name that address instead."
        else:
            said = response.text("message")[:_MAX_MESSAGE].rstrip(".")
            sentence = f"{server} answers {path} with status {status}{said and f': {said}'}."
            if status == 404 and not said:
                sentence += " Check that this is the address of an MLflow server."
        return HttpError(sentence, status=status)

    def _object(self, path: str, body: bytes) -> _Row:
        with contextlib.suppress(ValueError, RecursionError):
            found = json_value(body)
            if isinstance(found, dict):
                return found
        raise HttpError(
            f"{self.url} answers {path} with something else than a JSON object."
            f" Check that this is the address of an MLflow server."
        )


class MlflowServerRun(FileRun):
    """One run of a server."""

    def __init__(self, api: _Api, row: _Row, experiments: Mapping[str, str]) -> None:
        self._api = api
        self._info, data = _object(row, "info"), _object(row, "data")
        super().__init__(api.url, str(self._info.get("run_id") or self._info.get("run_uuid")))
        self._latest = _rows(data, "metrics")
        self._row = row
        self.identity: Identity = identity_of(
            self.key,
            name=self._info.get("run_name"),
            experiment=experiments.get(str(self._info.get("experiment_id"))),
            start=self._info.get("start_time"),
            params=_pairs(data, "params"),
            tags=_pairs(data, "tags"),
            facts={
                "source": api.url,
                "mlflow_artifact_uri": self._info.get("artifact_uri"),
                **_datasets(row),
            },
        )

    def signature(self) -> FileSignature:
        """A digest of what the search says of the run: its status and its latest values."""
        # Servers list metrics and tags in any order.
        data = self._row["data"]
        parts = [self._info, *(row for name in data for row in _rows(data, name))]
        return ((stable_id(*sorted(repr(sorted(part.items())) for part in parts)), 0, 0),)

    def read_new(self) -> Iterator[Batch]:
        """The history of every metric, by time; the artifacts; the end."""
        latest = self.identity.created or 0.0
        for records in self._histories():
            latest = max(latest, float(records[-1]["t"]))
            yield Batch(records)
        more = self._artifacts(latest)
        end = finish_record(self._info.get("status"), end=self._info.get("end_time"), latest=latest)
        more += summary_records(SummaryReader(), self.identity, latest)
        if end is not None:
            more.append(end)
        if more:
            yield Batch(more)

    def _histories(self) -> Iterator[RecordList]:
        waiting: list[_Row] = []
        for metric in self._latest:
            for page in self._history(str(metric.get("key"))):
                waiting += page
                if len(waiting) >= _MAX_POINTS_HELD:
                    yield self._records(waiting)
                    waiting = []
        if waiting:
            yield self._records(waiting)

    def _history(self, name: str) -> Iterator[Sequence[_Row]]:
        path, asked = "/metrics/get-history", {"run_id": self.key, "metric_key": name}
        try:
            paged = {**asked, "max_results": _POINTS_PER_PAGE}
            yield from _pages(self._api.get, path, "metrics", paged)
        except HttpError as error:
            if error.status != 400:
                raise
            # MLflow's store of files knows no pages, and refuses the question for one.
            yield _rows(self._api.get(f"{_API}{path}", asked), "metrics")

    def _records(self, rows: Sequence[_Row]) -> RecordList:
        records = RecordList()
        try:
            placed = [(int(row["timestamp"]), int(row.get("step") or 0), row) for row in rows]
            for t, step, row in sorted(placed, key=lambda place: place[:2]):
                value = restored(row.get("value") or 0.0)
                records.add_point(str(row["key"]), value, step=step, t=t / 1000)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise HttpError(
                f"{self.path}: the history of run {self.key} has a point that is damaged: {error}."
            ) from error
        return records

    def _artifacts(self, t: float) -> list[Record]:
        """The artifacts; that they cannot be listed or read is a problem."""
        t = unix_seconds(self._info.get("end_time")) or t
        sizes: dict[str, int] = {}
        try:
            for row in islice(self._files(None), _MAX_FILES):
                sizes[str(row.get("path"))] = int(row.get("file_size") or 0)
        except (HttpError, ValueError) as error:
            self._said.say(f"the artifacts of run {self.key} are not listed: {error}")
        if len(sizes) == _MAX_FILES:
            self._said.say(f"of the artifacts of run {self.key}, the first {_MAX_FILES} are read.")
        read = [file for file in importable(sizes, self._said) if self._download(file)]
        return list(artifact_records(MediaReader(self._folder, self._blobs), read, t))

    def _download(self, file: str) -> bool:
        """Copy an artifact into a temporary folder; that it cannot be is a problem."""
        place = self._folder / file
        try:
            data = self._api.content("/get-artifact", {"run_uuid": self.key, "path": file})
            if place.resolve().is_relative_to(self._folder.resolve()):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
                return True
        except (HttpError, OSError, ValueError) as error:
            self._said.say(f"the artifact {file} is not imported: {error}")
        return False

    @cached_property
    def _folder(self) -> Path:
        return temporary_folder(self)

    def _files(self, folder: object) -> Iterator[_Row]:
        asked = {"run_id": self.key, "path": folder}
        for page in _pages(self._api.get, "/artifacts/list", "files", asked):
            for row in page:
                yield from self._files(row.get("path")) if row.get("is_dir") else (row,)


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _pages(
    ask: Callable[..., _Row], path: str, field: str, asked: Mapping[str, object]
) -> Iterator[Sequence[_Row]]:
    """The rows of every page; a server that names the same page again is not asked again."""
    token: str | None = None
    for _ in range(_MAX_PAGES):
        answer = ask(f"{_API}{path}", {**asked, "page_token": token})
        yield _rows(answer, field)
        before, token = token, answer.get("next_page_token") or None
        if token is None:
            return
        if token == before or not isinstance(token, str):
            break
    raise HttpError(f"the {_LABEL} server's pages of {_API}{path} do not end.")


def _rows(answer: _Row, field: str) -> list[_Row]:
    rows = answer.get(field) or []
    if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
        return rows
    raise HttpError(f"an {_LABEL} server answers with a list {field!r} that has no objects.")


def _object(answer: _Row, field: str) -> _Row:
    found = answer.get(field)
    if isinstance(found, dict):
        return found
    raise HttpError(f"an {_LABEL} server answers without the object {field!r}.")


def _pairs(data: _Row, field: str) -> dict[str, Any]:
    return {str(row.get("key")): row.get("value") for row in _rows(data, field)}


def _datasets(row: _Row) -> dict[str, Any]:
    inputs = row.get("inputs")
    rows = _rows(inputs, "dataset_inputs") if isinstance(inputs, dict) else []
    return {"mlflow_datasets": rows} if rows else {}


def _credentials(username: str | None, password: str | None) -> dict[str, str]:
    """The header that MLflow's client sends; what the address says comes first."""
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if username is None:
        username = os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD")
    else:
        username, password = unquote(username), unquote(password or "")
    if username and password is not None:
        return {"Authorization": basic(username, password)}
    if token and not any(character in token for character in "\r\n"):
        return {"Authorization": f"Bearer {token}"}
    return {}


def _tls_context() -> ssl.SSLContext | None:
    if os.environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() == "true":
        return ssl._create_unverified_context()
    certificates = os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH")
    if not certificates:
        return None
    try:
        return ssl.create_default_context(cafile=certificates)
    except OSError as error:
        raise UsageError(f"MLFLOW_TRACKING_SERVER_CERT_PATH={certificates}: {error}.") from error
