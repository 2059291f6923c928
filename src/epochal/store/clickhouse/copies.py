"""The working copy of a hub: a folder of runs that follows the tables.

Each run has a folder with its identity and labels. Its lines are copied when they are first asked
for, and followed from then on: the run is *held*. Everything that a store answers comes from these
folders and from the rows that hubs have derived, so answers are those of any folder of runs.
The folder can be deleted at any time: what is in it comes from the tables again. What is in it and
not in the tables, because they were restored from an older backup, is stored there again.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from epochal.errors import FormatError, UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import RunFolder
from epochal.shipping.offering import PartCounts, named_part
from epochal.shipping.protocol import is_run_id
from epochal.store.answers import TrashedRun
from epochal.store.clickhouse import transfer
from epochal.store.clickhouse.folders import CopyFolders
from epochal.store.clickhouse.known import (
    DIGEST,
    DerivedRow,
    KnownRow,
    KnownRun,
    RowQueue,
    digest,
    forget_lost_parts,
    kept,
    lost_facts,
)
from epochal.store.clickhouse.rows import columns_of, decode_row, encode_row, kind_of
from epochal.store.clickhouse.tables import (
    DELETED,
    IDENTITY,
    LABELS,
    SEALED,
    Fact,
    RowColumns,
    StoredRow,
    Tables,
)

# Clocks of servers differ, and inserts take their time: so far back is looked again.
_SLACK_S = 60
# And so often at everything.
_WHOLE_EVERY_S = 300.0
ERASED = "erased"
_LIVE_EVERY_S = 2.0
# The row of a run that grows is derived so often, and so long after another hub should have.
_DERIVE_EVERY_S = 2.0
_DERIVE_FOR_OTHERS_S = 60.0
# So many runs are shown at once where the disk is empty.
_FIRST_RUNS = 200
# A copy that was used within this time is not deleted.
_IN_USE_S = 60.0


class Copies:
    """The runs of the tables in a folder; threads may share it, other processes may not.

    ``rules`` are those of the reader: rows that were derived with others are not used.
    """

    def __init__(self, tables: Tables, root: Path, *, rules: RuleSettings | None = None) -> None:
        self.tables = tables
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.counts = PartCounts()
        self._kind = kind_of(RuleSettings() if rules is None else rules)
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._runs: dict[str, KnownRun] = {}
        self._seen_s = self._seen_version = self._seen_row = 0
        self._whole_s = 0.0
        self._queue = RowQueue()
        # Runs that cannot be copied, with a sentence.
        self.problems: dict[str, str] = {}
        self.folders = CopyFolders(root)
        for run_id, place in self.folders.all().items():
            folder, run = RunFolder(place), self._run(run_id)
            run.is_held = bool(folder.parts() or folder.sealed_parts())
            with contextlib.suppress(OSError):
                run.used_s = place.stat().st_mtime

    # -- looking ----------------------------------------------------------------------------------

    def fetch_changed(self) -> None:
        """Know everything that was stored since the last look, and copy what is held of it.

        The newest runs come first. Raises ``ClickHouseError``.
        """
        with self._looking:
            is_whole = time.monotonic() > self._whole_s
            told, versions = self._look(is_whole=is_whole)
            newer = {
                run_id
                for run_id, version in versions.items()
                if (row := self._run(run_id).row) is None or row.version < version
            }
            behind = [
                (run.changed, run_id) for run_id, run in list(self._runs.items()) if run.is_behind
            ]
            ids = [run_id for _, run_id in sorted(behind, reverse=True)]
            # A page of an empty disk shows the newest runs while the others are still on their way.
            for some in (ids[:_FIRST_RUNS], ids[_FIRST_RUNS:]):
                rows = [run_id for run_id in some if run_id in newer]
                newer.difference_update(rows)
                self._learn(self.tables.rows(self._kind, rows))
                self._catch_up_all(some)
            self._learn(self.tables.rows(self._kind, sorted(newer)))
            for run_id in list(self._runs) if is_whole else told:
                if not self._run(run_id).has_current_row:
                    self._queue.want(run_id, in_s=_DERIVE_FOR_OTHERS_S)
            self._seen_row = max(versions.values(), default=self._seen_row)
            if is_whole:
                self._whole_s = time.monotonic() + _WHOLE_EVERY_S

    def _catch_up_all(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            try:
                self._catch_up(run_id)
            except FormatError as error:
                self.problems[run_id] = str(error)

    def fetch(self, run_id: str, *, lines: bool = True) -> Path | None:
        """Know everything that is stored of one run; its folder, None where there is no such run.

        Its lines are copied, unless they are not wanted. A deleted run has no folder.
        """
        run = self._run(run_id)
        with run.lock:
            self._read(run_id, run)
            if not run.has_current_row:
                self._learn(self.tables.rows(self._kind, [run_id]))
            if lines:
                self._hold(run_id, run)
            else:
                self._catch_up(run_id)
            return None if self.is_deleted(run_id) else self.place_of(run_id)

    def _read(self, run_id: str, run: KnownRun) -> None:
        """Know what the tables say of a run."""
        run.facts = {fact.key: fact for fact in self.tables.facts(run_id)}
        parts = self.tables.parts(run_id)
        run.parts = {part.part: part.lines for part in parts}
        run.changed = max([run.changed, *(part.changed for part in parts)])
        run.is_behind = True

    def place_of(self, run_id: str) -> Path | None:
        """The folder of a run, if it is there."""
        return self.folders.of(run_id)

    def lock(self, run_id: str) -> threading.RLock:
        """What is held by whoever changes the copy of a run."""
        return self._run(run_id).lock

    # -- lines that are held ----------------------------------------------------------------------

    def hold(self, run_id: str) -> None:
        """Have the lines of a run in its folder, and follow them from now on.

        Raises ``ClickHouseError``, and ``FormatError`` where lines are missing.
        """
        run = self._run(run_id)
        run.used_s = time.time()
        if run.is_held and not run.is_behind:
            return
        with run.lock:
            if not run.is_held or run.is_behind:
                if IDENTITY not in run.facts:
                    self._read(run_id, run)
                self._hold(run_id, run)

    def _hold(self, run_id: str, run: KnownRun) -> None:
        was_held, run.is_held = run.is_held, True
        with contextlib.ExitStack() as undo:
            undo.callback(self._not_held, run, was_held)
            self._catch_up(run_id)
            self._hold_parent(run_id)
            undo.pop_all()

    def _not_held(self, run: KnownRun, was_held: bool) -> None:
        run.is_held = was_held
        run.num_failed += 1

    def _hold_parent(self, run_id: str) -> None:
        """Hold the run that this one was forked from: its lines are history of both."""
        parent = self.folders.parent_of(run_id)
        if parent is not None:
            self.hold(parent)

    def is_held(self, run_id: str) -> bool:
        """Whether the lines of a run are in its folder."""
        return self._run(run_id).is_held

    def note_use(self, run_id: str) -> None:
        """Know that the lines of a run are in use."""
        self._run(run_id).used_s = time.time()

    def is_current(self, run_id: str) -> bool:
        """Whether the row that is known of a run was derived from all that is stored."""
        return self._run(run_id).has_current_row

    def has_labels(self, run_id: str) -> bool:
        """Whether people have changed labels of a run."""
        return LABELS in self._run(run_id).facts

    def received(self, run_id: str) -> float:
        """When anything of a run was stored last, in Unix seconds."""
        run = self._run(run_id)
        return max([run.changed, *(fact.version / 1e6 for fact in run.facts.values())])

    def unused(self) -> list[str]:
        """Held runs that can be derived again from the tables, the longest unused first."""
        before = time.time() - _IN_USE_S
        with self._lock:
            runs = list(self._runs.items())
        parents = {
            parent
            for run_id, run in runs
            if run.is_held and (parent := self.folders.parent_of(run_id)) is not None
        }
        found = [
            (run.used_s, run_id)
            for run_id, run in runs
            if run.is_held and run.used_s < before and run.has_current_row
        ]
        return [run_id for _, run_id in sorted(found) if run_id not in parents]

    def held(self) -> list[Path]:
        """The folders of runs whose lines are here."""
        with self._lock:
            ids = [run_id for run_id, run in self._runs.items() if run.is_held]
        return [place for run_id in ids if (place := self.place_of(run_id)) is not None]

    def evict(self, run_id: str) -> None:
        """Delete the lines and blobs of a run from its folder; they are copied when asked for."""
        run = self._run(run_id)
        with run.lock:
            place = self.place_of(run_id)
            run.is_held = False
            if place is None:
                return
            folder = RunFolder(place)
            for inside in (folder.journal, folder.segments, folder.blobs, folder.live):
                shutil.rmtree(inside, ignore_errors=True)

    # -- rows -------------------------------------------------------------------------------------

    def state_of(self, run_id: str, *, exact: bool) -> tuple[str, KnownRow | None]:
        """A text that changes with what is known of a run that is not held, and its row.

        ``exact``: a row that was derived from less than what is stored is not used.
        """
        run = self._run(run_id)
        row = run.row if run.has_current_row or not exact else None
        labels = run.facts.get(LABELS)
        lines, identity = run.basis
        said = (
            0 if row is None else row.version,
            0 if labels is None else labels.version,
            identity if row is None else 0,
            lines if exact else 0,
            run.num_failed,
        )
        return "/".join(map(str, said)), row

    def due(self) -> Iterator[str]:
        """Runs whose rows are to be derived here now."""
        for run_id in self._queue.due():
            if self._run(run_id).has_current_row or self.is_deleted(run_id):
                self._queue.done(run_id)
            else:
                yield run_id

    def want_row(self, run_id: str) -> None:
        """Have the row of a run derived here as soon as possible."""
        self._queue.want(run_id, in_s=0.0)

    def forget_row(self, run_id: str) -> None:
        """Use the row of a run no longer: it is derived anew."""
        self._run(run_id).row = None

    def basis(self, run_id: str) -> tuple[int, int]:
        """What a row of now is derived from."""
        return self._run(run_id).basis

    def put_rows(self, derived: Sequence[DerivedRow]) -> None:
        """Store rows that were derived here; raises ``ClickHouseError``."""
        rows: list[tuple[StoredRow, RowColumns]] = []
        for one in derived:
            data = encode_row(one.row)
            if data is None:
                self.put_off(one.run_id)
                continue
            known = self._run(one.run_id).row
            version = self.tables.next_version(after=0 if known is None else known.version)
            stored = StoredRow(one.run_id, *one.basis, version, data)
            rows.append((stored, columns_of(one.row)))
        self.tables.put_rows(self._kind, rows)
        self._learn(stored for stored, _ in rows)
        for one in derived:
            if self._run(one.run_id).has_current_row:
                self._queue.done(one.run_id)
            else:
                self._queue.put_off(one.run_id, for_s=max(_DERIVE_EVERY_S, 20 * one.took_s))

    def put_off(self, run_id: str) -> None:
        """Derive the row of a run later: it cannot be read or stored now."""
        self._queue.put_off(run_id, for_s=_WHOLE_EVERY_S)

    def _learn(self, rows: Iterable[StoredRow]) -> None:
        for stored in rows:
            run = self._run(stored.run)
            row = decode_row(stored.row)
            if row is not None and (run.row is None or run.row.version < stored.version):
                run.row = KnownRow(row, stored.lines, stored.identity, stored.version)

    # -- storing ----------------------------------------------------------------------------------

    def put_fact(self, run_id: str, key: str, value: str) -> None:
        """Store something about a run, unless it is stored already."""
        run = self._run(run_id)
        known = run.facts.get(key)
        if known is None or known.value not in (value, digest(value)):
            after = 0 if known is None else known.version
            with contextlib.ExitStack() as undo:
                undo.callback(setattr, run, "is_behind", True)  # the folder is not as stored
                version = self.tables.put_fact(run_id, key, value, after=after)
                undo.pop_all()
            run.facts[key] = Fact(run_id, key, kept(key, value), version)
            if key == IDENTITY:
                self._queue.want(run_id, in_s=_DERIVE_EVERY_S)

    def is_deleted(self, run_id: str) -> bool:
        """Whether a run is in the trash, or erased."""
        deleted = self._run(run_id).facts.get(DELETED)
        return deleted is not None and deleted.value != ""

    def delete(self, moved: TrashedRun) -> None:
        """Store that a run is in the trash since it was moved there."""
        self.folders.note_trashed(moved.id, Path(moved.folder))
        self.put_fact(moved.id, DELETED, repr(moved.deleted))

    def note_lines(self, run_id: str, stem: str, num_lines: int) -> None:
        """Know that so many lines of a part are stored."""
        run = self._run(run_id)
        run.parts[stem] = num_lines
        run.used_s = time.time()
        run.changed = max(run.changed, int(self.tables.clock.now()))
        self._queue.want(run_id, in_s=_DERIVE_EVERY_S)

    def num_lines(self, run_id: str, stem: str) -> int:
        """How many lines of a part are stored, as far as is known here."""
        return self._run(run_id).parts.get(stem, 0)

    def _run(self, run_id: str) -> KnownRun:
        run = self._runs.get(run_id)
        if run is None:
            with self._lock:
                run = self._runs.setdefault(run_id, KnownRun())
        return run

    def _look(self, *, is_whole: bool) -> tuple[Set[str], Mapping[str, int]]:
        """See what was stored; the runs it is of, and the versions of rows."""
        if is_whole:
            self._seen_s = self._seen_version = self._seen_row = 0
        # A clock that is ahead must not hide what others store meanwhile.
        self.tables.clock.follow()
        now_s = self.tables.clock.now()
        since_s = min(self._seen_s, int(now_s)) - _SLACK_S
        now, slack = int(now_s * 1e6), _SLACK_S * 1_000_000
        since_version = max(0, min(self._seen_version, now) - slack)
        since_row = max(0, min(self._seen_row, now) - slack)
        # Rows last: one that was derived from more than what is known here is no longer current.
        parts = self.tables.parts(since=max(0, since_s))
        facts = self.tables.facts(since=since_version)
        versions = self.tables.row_versions(self._kind, since=since_row)
        if is_whole:
            runs = dict(self._runs)
            forget_lost_parts(runs, parts)
            self._store_again(lost_facts(runs, facts))
        for part in parts:
            run = self._run(part.run)
            # Lines that came a second time, or late, say less than was stored before.
            if part.lines > run.parts.get(part.part, 0):
                run.parts[part.part] = part.lines
                run.is_behind = True
            run.changed = max(run.changed, part.changed)
        for fact in facts:
            if not fact.run:
                continue  # of all hubs together
            run = self._run(fact.run)
            before = run.facts.get(fact.key)
            if before is None or before.version < fact.version:
                run.facts[fact.key] = fact
                run.is_behind = True
        told = {*(part.run for part in parts), *(fact.run for fact in facts)} - {""}
        self._seen_s = max((part.changed for part in parts), default=self._seen_s)
        self._seen_version = max((fact.version for fact in facts), default=self._seen_version)
        return told, versions

    def _store_again(self, lost: Iterable[Fact]) -> None:
        """Store facts that the tables have lost, as old as they are: a newer one stays newer."""
        for fact in lost:
            value: str | None = fact.value
            if fact.key == IDENTITY:
                place = self.folders.anywhere(fact.run)
                value = None if place is None else transfer.identity_of(RunFolder(place))
            if value is not None:
                self.tables.put_fact(fact.run, fact.key, value, version=fact.version)

    # -- one run ----------------------------------------------------------------------------------

    def _catch_up(self, run_id: str) -> None:
        run = self._run(run_id)
        with run.lock:
            if IDENTITY not in run.facts or not is_run_id(run_id):
                return  # its first lines came, who it is did not yet
            self.problems.pop(run_id, None)
            deleted = run.facts.get(DELETED)
            if deleted is not None and deleted.value == ERASED:
                self.folders.forget(run_id)
                run.parts, run.row, run.is_behind = {}, None, False
                return
            folder = self._folder(run_id, run)
            if run.is_held:
                self._copy_lines(run_id, run, folder)
            labels = run.facts.get(LABELS)
            if labels is not None:
                transfer.write_changed(folder.labels, transfer.decoded(labels.value))
            self._move(run_id, run, folder)
            run.is_behind = False

    def _copy_lines(self, run_id: str, run: KnownRun, folder: RunFolder) -> None:
        parts = {stem: n for stem, n in run.parts.items() if transfer.is_part(stem)}
        transfer.fetch_parts(self.tables, run_id, folder, parts, self.counts, changed_s=run.changed)
        self._give_back(run_id, run, folder)
        self._seal(run, folder)
        if time.monotonic() > run.live_s:
            run.live_s = time.monotonic() + _LIVE_EVERY_S
            transfer.fetch_live(self.tables, run_id, folder)

    def _folder(self, run_id: str, run: KnownRun) -> RunFolder:
        """The folder of a run with its identity; it is made where there is none."""
        fact = run.facts[IDENTITY]
        if fact.value.startswith(DIGEST):
            place = self.folders.anywhere(run_id)
            if place is not None:
                return RunFolder(place)  # it was written when it came
            fact = next(one for one in self.tables.facts(run_id) if one.key == IDENTITY)
        identity = transfer.decoded(fact.value)
        folder = self.folders.write_identity(run_id, identity, written_s=fact.version / 1e6)
        run.facts[IDENTITY] = fact._replace(value=kept(IDENTITY, fact.value))
        return folder

    def _give_back(self, run_id: str, run: KnownRun, folder: RunFolder) -> None:
        """Store lines that this copy has and the tables have lost."""
        have = {one.stem: self.counts.whole(folder.part_path(one))[0] for one in folder.parts()}
        for name in folder.sealed_parts():
            sealed, stored = run.facts.get(f"{SEALED}{name.stem}"), run.parts.get(name.stem, 0)
            if sealed is None or int(sealed.value) != stored:
                have[name.stem] = transfer.num_sealed(folder.sealed_path(name))
        if any(num_lines > run.parts.get(stem, 0) for stem, num_lines in have.items()):
            transfer.send_parts(self.tables, run_id, folder, self.counts)
            run.parts.update({part.part: part.lines for part in self.tables.parts(run_id)})

    def _seal(self, run: KnownRun, folder: RunFolder) -> None:
        """Seal the parts of which the sender has sent a segment: it holds a tenth of the bytes."""
        from epochal.segments.seal import seal_part

        for key, fact in run.facts.items():
            stem = key.removeprefix(SEALED)
            if stem == key or not transfer.is_part(stem):
                continue
            name = named_part(stem)
            have, _ = self.counts.whole(folder.part_path(name))
            if have and have >= int(fact.value) and not folder.sealed_path(name).exists():
                with contextlib.suppress(FormatError, UsageError):  # it stays a journal part
                    seal_part(folder, name, into=folder.segments)
                    folder.part_path(name).unlink()

    def _move(self, run_id: str, run: KnownRun, folder: RunFolder) -> None:
        """Have a run in the trash when it is deleted, and out of it when it is not."""
        is_trashed = ".trash" in folder.path.parts
        if self.is_deleted(run_id) and not is_trashed:
            deleted_s = float(run.facts[DELETED].value)
            self.folders.move_to_trash(run_id, folder.path, deleted_s=deleted_s)
        elif not self.is_deleted(run_id) and is_trashed:
            self.folders.restore(run_id, folder.path)
