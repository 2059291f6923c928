"""Adds up batches and makes records of them: one a minute at most, and one when an epoch ends.

Identities are sampled by their own value: an identity is kept if its hash ends in enough zero bits.
So the same sample is kept in every epoch, in every split and on every rank, or nowhere. The number
of bits grows until a record is small enough. A share that is estimated from ``n`` kept identities
has a standard error of at most ``0.5 / sqrt(n)``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from epochal.journal.layout import RunFolder, rank_of_writer
from epochal.journal.line import decode
from epochal.records import Record
from epochal.torch.data.batch import HASH_BYTES, BatchFacts, mixed
from epochal.torch.data.pairs import PairFigures

# Identities in a record: about 4 KB of indices, 8 KB of hashes.
MOST_IDENTITIES = 384
_MOST_LABELS = 200
_MOST_PLACES = 8
# A batch smaller than this may well be of one class by chance.
_LEAST_OF_ONE_CLASS = 8


class Sampled:
    """Identities kept by value, each with something that belongs to it, in order."""

    def __init__(self) -> None:
        self.bits = 0
        self.kept: list[tuple[int, int, Any]] = []  # the hash, the identity, what belongs to it

    def add(self, hashed: int, identity: int, of: Any = None) -> None:
        """Keep one identity if its hash says so."""
        if not hashed & ((1 << self.bits) - 1):
            self.kept.append((hashed, identity, of))
            if len(self.kept) > MOST_IDENTITIES:
                self.shrink(MOST_IDENTITIES)

    def shrink(self, most: int) -> None:
        """Use more bits until at most so many are kept."""
        while len(self.kept) > most and self.bits < 40:
            self.bits += 1
            mask = (1 << self.bits) - 1
            self.kept = [one for one in self.kept if not one[0] & mask]
        # The same identity over and over has no more bits to tell it by.
        del self.kept[most:]

    def clear(self) -> None:
        """Begin again with as many bits as were needed."""
        self.kept = []


class Order:
    """The order of samples in one epoch: a digest after 1, 2, 4, … batches, and at the end."""

    def __init__(self) -> None:
        self._state = blake2b(digest_size=HASH_BYTES)
        self._batches = 0
        self._samples = 0
        self._is_known = True

    def add(self, identities: np.ndarray[Any, Any] | None) -> list[int] | None:
        """Take in a batch; gives (batches, samples, digest) where one is due."""
        self._batches += 1
        if identities is None:
            self._is_known = False
        else:
            self._state.update(identities.astype(np.int64).tobytes())
            self._samples += len(identities)
        is_due = self._batches & (self._batches - 1) == 0
        return self.digest() if is_due else None

    def digest(self) -> list[int] | None:
        """Batches and samples so far, and the digest of their order; None where it is not known."""
        if not self._is_known or not self._batches:
            return None
        value = int.from_bytes(self._state.digest(), "little")
        return [self._batches, self._samples, value]


class Window:
    """Batches of one epoch since the last record."""

    def __init__(self, indices: Sampled, hashes: Sampled, pairs: PairFigures) -> None:
        self._indices, self._hashes, self._pairs = indices, hashes, pairs
        self._samples_before = self.samples = 0
        self.begin()

    def begin(self) -> None:
        """Begin again, after a record was written."""
        self._samples_before += self.samples
        self.batches = self.samples = 0
        self._indices.clear()
        self._hashes.clear()
        self.orders: list[list[int]] = []
        self._read_batches = self._on_device = 0
        self._labels: Counter[int] = Counter()
        self._labelled = self._of_one_class = 0
        self._nonfinite: list[int] = []
        self._constant: list[int] = []
        self._wrong = [0, 0]  # samples with values that are not finite, constant samples
        self._moments = [0.0, 0.0, 0.0]
        self._lengths: Counter[int] = Counter()
        self._length_sum = self._longest = self._padded = self._positions = 0
        self._shortest: int | None = None

    def add(self, facts: BatchFacts | None, indices: np.ndarray[Any, Any] | None) -> None:
        """Take in one batch: what was read of it, and the indices of its samples if known."""
        first = self._samples_before + self.samples
        self.batches += 1
        if indices is not None:
            self.samples += len(indices)
            mask = np.uint64((1 << self._indices.bits) - 1)
            spread = mixed(indices)
            for place in np.flatnonzero((spread & mask) == 0).tolist():
                self._indices.add(int(spread[place]), int(indices[place]))
        elif facts is not None:
            self.samples += facts.samples
        if facts is not None and facts.is_read:
            self._read_batches += 1
            self._add_facts(facts, indices, first)

    def _add_facts(
        self, facts: BatchFacts, indices: np.ndarray[Any, Any] | None, first: int
    ) -> None:
        def identity(place: int) -> int | None:
            return None if indices is None or place >= len(indices) else int(indices[place])

        mask = (1 << self._hashes.bits) - 1
        for place, one in enumerate(facts.hashes or ()):
            if one is not None and not one & mask:
                self._hashes.add(one, one, identity(place))
        self._on_device += facts.is_on_device
        for number, (kept, places) in enumerate(
            ((self._nonfinite, facts.nonfinite), (self._constant, facts.constant))
        ):
            self._wrong[number] += len(places)
            room = max(0, _MOST_PLACES - len(kept))
            for place in places[:room]:
                known = identity(place)
                kept.append(first + place if known is None else known)
        if facts.pair is not None:
            self._pairs.add(facts.pair, facts.worker)
        if facts.labels is not None:
            self._add_labels(facts)
        if facts.moments is not None:
            self._moments = [a + b for a, b in zip(self._moments, facts.moments, strict=True)]
        if facts.lengths:
            self._add_lengths(facts)

    def _add_labels(self, facts: BatchFacts) -> None:
        assert facts.labels is not None
        if facts.samples >= _LEAST_OF_ONE_CLASS:
            self._labelled += 1
            self._of_one_class += len(facts.labels) == 1
        self._labels.update(facts.labels)
        if len(self._labels) > _MOST_LABELS:
            self._labels = Counter(dict(self._labels.most_common(_MOST_LABELS)))

    def _add_lengths(self, facts: BatchFacts) -> None:
        lengths = facts.lengths or [0]
        self._lengths.update(_edge(length) for length in lengths)
        self._length_sum += sum(lengths)
        least = min(lengths)
        self._shortest = least if self._shortest is None else min(least, self._shortest)
        self._longest = max(self._longest, *lengths)
        self._padded += facts.padded
        self._positions += facts.positions

    def fields(self, most_identities: int) -> Record:
        """What a record says of these batches, with at most so many identities of each sort."""
        record: Record = {
            "batches": self.batches,
            "samples": self.samples,
            "read_batches": self._read_batches,
        }
        for name, sampled in (("index", self._indices), ("hash", self._hashes)):
            # What one crowded record leaves out, the next one may have room for.
            bits = sampled.bits
            sampled.shrink(most_identities)
            if sampled.kept:
                plural = "indices" if name == "index" else "hashes"
                record[plural] = [identity for _, identity, _ in sampled.kept]
                record[f"{name}_bits"] = sampled.bits
            if name == "hash" and any(of is not None for _, _, of in sampled.kept):
                record["hash_indices"] = [of for _, _, of in sampled.kept]
            sampled.bits = bits
        if self.orders:
            record["orders"] = self.orders
        if self._labels:
            record["labels"] = {str(label): n for label, n in sorted(self._labels.items())}
            record["labelled_batches"] = self._labelled
            record["one_class_batches"] = self._of_one_class
        for name, count, places in (
            ("nonfinite", self._wrong[0], self._nonfinite),
            ("constant", self._wrong[1], self._constant),
        ):
            if count:
                record[f"{name}_samples"] = count
                record[f"{name}_at"] = list(places)
        elements, total, squares = self._moments
        if elements:
            mean = total / elements
            deviation = math.sqrt(max(0.0, squares / elements - mean * mean))
            if math.isfinite(mean) and math.isfinite(deviation):
                record["mean"], record["std"] = mean, deviation
        if self._positions:
            sequences = sum(self._lengths.values())
            record["padding"] = self._padded / self._positions
            record["lengths"] = {
                "sequences": sequences,
                "min": self._shortest,
                "mean": self._length_sum / sequences,
                "max": self._longest,
                "up_to": {str(edge): n for edge, n in sorted(self._lengths.items())},
            }
        if self._on_device:
            record["on_device"] = self._on_device
        return record | self._pairs.fields()


def _edge(length: int) -> int:
    """The power of two that a length goes up to."""
    return 1 << max(0, length - 1).bit_length() if length > 0 else 0


# -- the attempt before ---------------------------------------------------------------------------


# The last megabytes of a journal have the last minutes, whatever else is in it.
_TAIL_BYTES = 8 << 20


def previous_attempt_fields(run: Any, name: str) -> Record:
    """What a record says of the epoch that the attempt before left unfinished; often nothing."""
    if run.attempt < 2:
        return {}
    records = [one for one in _records(run) if one.get("name") == name]
    last = max((one["epoch"] for one in records), default=0)
    windows = [one for one in records if one["epoch"] == last]
    if not windows or any(one.get("complete") is True for one in windows):
        return {}
    is_index = any("indices" in one for one in windows)
    field, bits = ("indices", "index_bits") if is_index else ("hashes", "hash_bits")
    kept = Sampled()
    kept.bits = max(int(one.get(bits, 0)) for one in windows)
    for one in windows:
        identities = np.asarray(one.get(field, ()), dtype=np.int64)
        hashes = mixed(identities) if is_index else identities
        for hashed, identity in zip(hashes.tolist(), identities.tolist(), strict=True):
            kept.add(hashed, identity, one.get("step", -1))
    if not kept.kept:
        return {}
    return {
        "earlier": [identity for _, identity, _ in kept.kept],
        "earlier_steps": [step for _, _, step in kept.kept],
        "earlier_bits": kept.bits,
        "earlier_by": "index" if is_index else "content",
    }


def _records(run: Any) -> Iterator[Record]:
    """The ``data`` records at the end of this rank's journal of the attempt before."""
    folder = RunFolder(run.dir)
    for name in folder.parts():
        if name.attempt != run.attempt - 1 or rank_of_writer(name.writer) != run.rank:
            continue
        with folder.part_path(name).open("rb") as file:
            file.seek(max(0, folder.part_path(name).stat().st_size - _TAIL_BYTES))
            for line in file:
                if line.startswith(b'{"log":"data"'):
                    record = decode(line)
                    if record is not None and isinstance(record.get("epoch"), int):
                        yield record
