"""The name under which a worker leases what it does."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from epochal.store.bucket import BucketError
from epochal.store.cluster.database import CatalogAwayError


class Leases:
    """The leases of one worker, which does one thing at a time.

    Each call has a name of its own. After one that was cut short because the database or the bucket
    was away, the next has the same name, so it has the leases at once. Whatever failed for another
    reason waits until its lease has expired, as do other workers.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._owner = secrets.token_hex(8)

    @contextmanager
    def taking(self) -> Iterator[dict[str, Any]]:
        """Take leases and give them back within the block; yields the parameters of queries."""
        is_cut = False
        try:
            yield {"owner": self._owner, "lease_s": self._lease_s}
        except (BucketError, CatalogAwayError):
            is_cut = True
            raise
        finally:
            if not is_cut:
                self._owner = secrets.token_hex(8)
