"""Seals the parts of a cluster's runs: lines of the database become an object of the bucket.

Any hub may seal any part. It leases one, by the clock of the database, and works without an open
transaction; the result is stored only while the lease holds. Lines that come meanwhile are the tail
of the part until it is sealed again.
"""

from __future__ import annotations

import contextlib
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from epochal.errors import FormatError
from epochal.journal.layout import RunFolder
from epochal.shipping.offering import named_part
from epochal.shipping.shipper import file_digest
from epochal.store.cluster.leases import Leases
from epochal.store.cluster.runs import ClusterRuns, LostLeaseError, StoredFile
from epochal.store.published import object_key

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

# A part that is not sealed by then is sealed by another hub.
LEASE_S = 180.0


@dataclass(frozen=True, slots=True)
class SealRule:
    """When a part is sealed, in seconds since its last or its oldest line that is not sealed.

    ``settled_s`` holds for a part that a later one follows, and when rank 0 has recorded its end;
    ``idle_s`` for every other part. ``oldest_s`` lets partitions of lines be dropped while a slow
    run goes on.
    """

    settled_s: float = 30.0
    idle_s: float = 3600.0
    oldest_s: float = 6 * 3600.0


class Lease(NamedTuple):
    """A part that is sealed here: the first ``sealed`` of its lines are in an object already."""

    run: str
    stem: str
    folder: str
    sealed: int
    object: str | None
    object_bytes: int
    sha256: str
    owner: str


# Names of parts sort as their attempts and numbers do, and no writer has a dot in its name.
_DUE = """
with due as (
    select run, stem from epochal.parts as part
    where records > sealed
    and (lease_until is null or lease_until < now() or lease_owner = %(owner)s) and (
        received < now() - make_interval(secs => %(idle_s)s)
        or unsealed < now() - make_interval(secs => %(oldest_s)s)
        or received < now() - make_interval(secs => %(settled_s)s) and (
            exists (
                select from epochal.parts as later where later.run = part.run
                and later.stem > part.stem and later.stem < split_part(part.stem, '.', 1) || '/'
            )
            or (
                select last.is_finished from epochal.parts as last where last.run = part.run
                and last.stem > 'loop.' and last.stem < 'loop/' order by last.stem desc limit 1
            )
        )
    )
    order by received limit 1 for update of part skip locked
)
update epochal.parts set
    lease_owner = %(owner)s, lease_until = now() + make_interval(secs => %(lease_s)s)
from due join epochal.runs on runs.id = due.run
where parts.run = due.run and parts.stem = due.stem
returning parts.run, parts.stem, project || '/' || slug, sealed, object,
    coalesce(object_bytes, 0), coalesce(sha256, ''), parts.lease_owner
"""


def count_leases(cursor: Cursor) -> int:
    """How many parts are sealed now, by all hubs."""
    text = "select count(*) from epochal.parts where records > sealed and lease_until > now()"
    row = cursor.execute(text).fetchone()
    return 0 if row is None else int(row[0])


class Sealer:
    """Seals what is due; several may work at once, in one process or in many.

    ``on_object`` is called when an object is there and not committed yet.
    """

    def __init__(
        self,
        runs: ClusterRuns,
        rule: SealRule | None = None,
        *,
        lease_s: float = LEASE_S,
        on_object: Callable[[str], object] = lambda _key: None,
    ) -> None:
        self._runs = runs
        self._rule = SealRule() if rule is None else rule
        self._leases = Leases(lease_s)
        self._on_object = on_object

    def seal_next(self) -> bool:
        """Seal a part that is due; False where nothing is.

        Raises ``FormatError`` for a part that cannot be sealed. It is tried again when its lease
        has expired; until then others are due. One that could not be sealed because the database
        or the bucket was away is due at once.
        """
        with self._leases.taking() as taken:
            lease = self._lease(taken)
            if lease is not None:
                self._seal(lease)
        return lease is not None

    def _lease(self, taken: Mapping[str, Any]) -> Lease | None:
        """A part that is due, for this call alone; None where nothing is."""
        rule = self._rule
        asked = {
            **taken,
            "settled_s": rule.settled_s,
            "idle_s": rule.idle_s,
            "oldest_s": rule.oldest_s,
        }

        def work(cursor: Cursor) -> Lease | None:
            row = cursor.execute(_DUE, asked).fetchone()
            return None if row is None else Lease._make(row)

        return self._runs.database.run(work)

    def _seal(self, lease: Lease) -> None:
        """Seal a part; nothing changes where another hub has taken it over."""
        from epochal.journal.segments.seal import seal_part

        name = named_part(lease.stem)
        with tempfile.TemporaryDirectory(prefix="epochal-") as scratch:
            folder = RunFolder(Path(scratch))
            folder.journal.mkdir()
            num_lines, last_crc = _write(self._lines(lease), folder.part_path(name))
            if num_lines <= lease.sealed:
                raise FormatError(f"the lines of {lease.stem} of the run {lease.run} are missing.")
            with seal_part(folder, name, into=folder.segments) as segment:
                path = segment.path
            sha256, num_bytes = file_digest(path)
            key = object_key(lease.folder, "segments", path.name, sha256)
            self._runs.put_object(key, path)
        self._on_object(key)
        file = StoredFile(key, num_bytes, sha256, num_lines)
        with contextlib.suppress(LostLeaseError):
            self._runs.put_segment(
                lease.run, lease.stem, file, lease_owner=lease.owner, last_crc=last_crc
            )

    def _lines(self, lease: Lease) -> Iterator[bytes]:
        """All lines of a part that have come until now."""
        if lease.object is not None:
            before = StoredFile(lease.object, lease.object_bytes, lease.sha256, lease.sealed)
            yield from self._runs.sealed_lines(before)
        yield from self._runs.unsealed_lines(lease.run, lease.stem, first=lease.sealed)


def _write(lines: Iterator[bytes], path: Path) -> tuple[int, int]:
    """Write lines to a file; how many there are, and the checksum of the last."""
    num_lines, last = 0, b""
    with open(path, "wb") as file:
        for last in lines:
            file.write(last)
            num_lines += last.count(b"\n")
    return num_lines, zlib.crc32(last[last.rfind(b"\n", 0, -1) + 1 :])
