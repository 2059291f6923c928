"""Links that show some runs, read-only, to whoever has them, until a date.

A link is a signed statement: which runs, until when. Nothing is stored but the key of the hub; a
new key, ``epochal hub share --revoke-all``, ends every link there is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from epochal.errors import UsageError
from epochal.hub.documents import Documents, Recent
from epochal.server.access import Principal

_PREFIX = "share_"
_KEY_BYTES = 32
_MOST_RUNS = 500


class Links:
    """Makes and reads the links of one hub."""

    def __init__(self, documents: Documents, *, clock: Callable[[], float] = time.time) -> None:
        self._keys = Recent(documents, "links-key")
        self._clock = clock

    def make(self, runs: Sequence[str], *, until: float) -> str:
        """The token of a link to these runs that ends at a time in Unix seconds."""
        if not 0 < len(runs) <= _MOST_RUNS:
            raise UsageError(f"a link shows 1 to {_MOST_RUNS} runs, not {len(runs)}.")
        said = {"runs": sorted(runs), "until": int(until)}
        body = _encode(json.dumps(said, separators=(",", ":")).encode())
        return f"{_PREFIX}{body}.{_encode(self._sign(body))}"

    def principal(self, token: str) -> Principal | None:
        """What a token of a link shows; None when it is no such token, is forged or has ended."""
        said = self._said(token)
        if said is None or self._clock() >= said["until"]:
            return None
        return Principal("shared link", "read", frozenset(), frozenset(said["runs"]))

    def refused(self, token: str) -> str | None:
        """Why a link is refused; None for a token that is not one of a link."""
        if not token.startswith(_PREFIX):
            return None
        said = self._said(token)
        if said is None:
            return "this link is not one of this hub, is not whole, or was revoked."
        ended = time.strftime("%Y-%m-%d", time.localtime(said["until"]))
        return f"this link ended on {ended}: ask who sent it for another one."

    def _said(self, token: str) -> dict[str, Any] | None:
        """What a link states; None when it is no link of this hub."""
        if not token.startswith(_PREFIX) or not token.isascii():
            return None
        body, _, signature = token[len(_PREFIX) :].partition(".")
        given = _decode(signature)
        if given is None or not hmac.compare_digest(given, self._sign(body)):
            return None
        said: dict[str, Any] = json.loads(_decode(body) or b"null")
        return said

    def revoke_all(self) -> None:
        """Make every link of this hub invalid."""
        self._keys.put("", {"key": secrets.token_hex(_KEY_BYTES)})

    def _sign(self, body: str) -> bytes:
        if not self._keys.bodies():
            self.revoke_all()
        key = bytes.fromhex(self._keys.bodies()[""]["key"])
        return hmac.new(key, body.encode(), hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
