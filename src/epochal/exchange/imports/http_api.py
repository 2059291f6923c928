"""Asks a tracker's server for JSON: with limits, without redirects, and every fault a sentence."""

from __future__ import annotations

import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from epochal.errors import EpochalError
from epochal.exchange.imports.values import json_value

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HELP_401 = "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN."
_TIMEOUT_S = 30.0
_MAX_BYTES = 128 * 1024 * 1024
_MAX_MESSAGE = 300
# A server that is overloaded or being restarted says so, and is asked again after these times.
_BUSY = frozenset({429, 502, 503, 504})
_WAITS_S = (0.5, 2.0)


class ServerError(EpochalError):
    """A server cannot be reached, refuses, or answers something else than its interface."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


def is_address(text: str) -> bool:
    """Whether a text is a URL and not a path."""
    return _ADDRESS.match(text) is not None


class HttpApi:
    """The interface of MLflow below one address."""

    def __init__(
        self, address: str, *, headers: Mapping[str, str], context: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self._headers = {"Accept": "application/json", **headers}
        # An answer elsewhere would get the credentials, so none is followed.
        self._opener = urllib.request.build_opener(
            _NoRedirect, urllib.request.HTTPSHandler(context=context)
        )

    def get(self, path: str, params: Mapping[str, object]) -> dict[str, Any]:
        """The object that a GET gives; parameters that are None are left out."""
        return self._object(path, self.content(path, params))

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """The object that a POST of a JSON object gives; fields that are None are left out."""
        return self._object(path, self._asked(path, msgspec.json.encode(_given(body))))

    def content(self, path: str, params: Mapping[str, object]) -> bytes:
        """The bytes that a GET gives."""
        return self._asked(f"{path}?{urlencode(_given(params))}")

    def _asked(self, path: str, body: bytes | None = None) -> bytes:
        kind = {} if body is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}{path}", body, kind)
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)
        path = request.selector.partition("?")[0]
        for wait_s in (*_WAITS_S, None):
            try:
                return self._opened(request, path)
            except ServerError as error:
                if wait_s is None or error.status not in _BUSY:
                    raise
                time.sleep(wait_s)
        raise AssertionError  # the last try returns or raises

    def _opened(self, request: urllib.request.Request, path: str) -> bytes:
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                body: bytes = response.read(_MAX_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(path, error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ServerError(
                f"cannot read from the MLflow server at {self.address}: {reason}."
                " Check the address and that the server runs."
            ) from error
        if len(body) > _MAX_BYTES:
            raise ServerError(f"{self.address} sends more than {_MAX_BYTES} bytes at once.")
        return body

    def _refusal(self, path: str, error: urllib.error.HTTPError) -> ServerError:
        server = f"the MLflow server at {self.address}"
        if error.code in (401, 403):
            sentence = f"{server} refuses access (status {error.code}). {_HELP_401}"
        elif 300 <= error.code < 400:
            target = error.headers.get("Location", "another address")
            sentence = f"{self.address} redirects to {target}: name that address instead."
        else:
            said = _message(error)
            sentence = f"{server} answers {path} with status {error.code}{said}."
            if error.code == 404 and not said:
                sentence += " Check that this is the address of an MLflow server."
        return ServerError(sentence, error.code)

    def _object(self, path: str, body: bytes) -> dict[str, Any]:
        try:
            found = json_value(body)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        raise ServerError(
            f"{self.address} answers {path} with something else than a JSON object."
            f" Check that this is the address of an MLflow server."
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow nothing: the status becomes an error."""


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _message(error: urllib.error.HTTPError) -> str:
    """What the body of an error says, as a clause; nothing where it is no JSON."""
    try:
        body = json_value(error.read(_MAX_BYTES))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return ""
    said = body.get("message") if isinstance(body, dict) else None
    return f": {said[:_MAX_MESSAGE].rstrip('.')}" if isinstance(said, str) and said else ""
