"""What batches are: hashes of samples, labels, padding and wrong inputs, added up to records.

The hash of a sample's content is made from at most a few kilobytes of it. Every array of two or
more elements counts, and every text and float. Single whole numbers do not: a label or an id must
not make two copies of one sample differ. Batches are read where they are collated, in a worker if
there are any. Tensors on an accelerator are never read.

Identities are sampled by their own value: an identity is kept if its hash ends in enough zero bits.
So the same sample is kept in every epoch, in every split and on every rank, or nowhere. The number
of bits grows until a record is small enough. A share that is estimated from ``n`` kept identities
has a standard error of at most ``0.5 / sqrt(n)``.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

from epochal.journal.layout import RunFolder, rank_of_writer
from epochal.journal.line import decode
from epochal.records import Record
from epochal.torch.data.pairs import LABELS, PairFacts, PairFigures, leaves

# Hashes have so many bytes: a JSON number that every reader keeps exactly.
HASH_BYTES = 6
# Of a larger array, only elements at equal distances are read.
_WHOLE_BYTES = 1024
_ELEMENTS = 256


def host_array(value: Any) -> np.ndarray[Any, Any] | None:
    """A tensor or array as NumPy sees it, without a copy; None where it lies on a device."""
    if isinstance(value, np.ndarray):
        return value
    if value.device.type != "cpu" or value.layout is not torch.strided:
        return None
    value = value.detach()
    if value.dtype is torch.bfloat16:
        value = value.view(torch.int16)
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    array: np.ndarray[Any, Any] = value.numpy()
    return array


def content_hash(sample: Any) -> int | None:
    """The hash of a sample; None where it has nothing on the host that could be hashed."""
    state = blake2b(digest_size=HASH_BYTES)
    number: int | None = None
    has_content = False
    for leaf in leaves(sample):
        if isinstance(leaf, (torch.Tensor, np.ndarray)):
            array = host_array(leaf)
            if array is None:
                continue
            if _is_content(array.size, array.dtype):
                state.update(_excerpt(array))
                has_content = True
            elif array.size == 1 and array.dtype.kind in "iub":
                number = int(array.reshape(-1)[0])
        elif isinstance(leaf, (str, bytes)):
            state.update(leaf.encode("utf-8", "replace") if isinstance(leaf, str) else leaf)
            has_content = True
        elif isinstance(leaf, float):
            state.update(struct.pack("=d", leaf))
            has_content = True
        else:
            number = int(leaf)
    if not has_content:
        if number is None:
            return None
        state.update(str(number).encode())
    return int.from_bytes(state.digest(), "little")


def _excerpt(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.kind == "O":
        return repr(array.tolist()[:_ELEMENTS]).encode()
    if array.nbytes <= _WHOLE_BYTES:
        return array.tobytes()
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    return np.ascontiguousarray(flat[:: _distance(array.size)]).tobytes()


def row_hashes(batch: Any, count: int) -> list[int] | None:
    """The hashes of the samples that a batch was stacked from, many times as fast.

    None where the batch has something else than arrays with a row for each sample.
    """
    tables: list[np.ndarray[Any, Any]] = []
    for leaf in leaves(batch):
        if not isinstance(leaf, torch.Tensor) or not leaf.dim() or leaf.shape[0] != count:
            return None
        array = host_array(leaf)
        if array is None:
            return None
        size = array.size // count
        if not _is_content(size, array.dtype):
            continue
        rows = array.reshape(count, size)
        if size * array.itemsize > _WHOLE_BYTES:
            rows = rows[:, :: _distance(size)]
        tables.append(np.ascontiguousarray(rows).view(np.uint8).reshape(count, -1))
    if not tables:
        return None
    joined = tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)
    whole, width = joined.tobytes(), joined.shape[1]
    return [
        int.from_bytes(
            blake2b(whole[start : start + width], digest_size=HASH_BYTES).digest(), "little"
        )
        for start in range(0, count * width, width)
    ]


def _is_content(size: int, dtype: np.dtype[Any]) -> bool:
    """Whether an array counts: a single whole number may be a label or an id."""
    return size > 1 or (size == 1 and dtype.kind == "f")


def _distance(size: int) -> int:
    # An odd distance meets every column of a table whose width is a power of two.
    return max(1, size // _ELEMENTS) | 1


# -- batches --------------------------------------------------------------------------------------


_MASK = "attention_mask"
# Mean and spread of the inputs come from so many elements of a batch.
_MOMENT_ELEMENTS = 4096
# With no more than these in a batch, values are codes, and a row of equal ones is no fault.
_FEW_VALUES = 8
# Of the elements of other samples: a value that is so frequent is that of sparse data.
_FREQUENT = 0.25
# So many elements of each input are checked for values that are not finite.
_CHECKED = 16384
_COLUMNS = 64


@dataclass(slots=True)
class BatchFacts:
    """Figures of one batch; positions are those of samples in it."""

    samples: int
    is_read: bool = True  # otherwise only the number of samples is known
    stride: int = 1  # every so many-th batch is read
    worker: int | None = None
    hashes: list[int | None] | None = None
    labels: list[int] | None = None  # of each sample
    nonfinite: list[int] = field(default_factory=list)
    constant: list[int] = field(default_factory=list)
    moments: tuple[int, float, float] | None = None  # elements, their sum, the sum of squares
    lengths: list[int] = field(default_factory=list)
    padded: int = 0  # positions that are padding, of so many:
    positions: int = 0
    is_on_device: bool = False
    pair: PairFacts | None = None


def read_batch(batch: Any, samples: Sequence[Any] | None, *, is_stacked: bool) -> BatchFacts:
    """The facts of a batch; ``samples`` are what it was collated from, where that is known.

    Otherwise the rows of its tensors are its samples. They are so as well if it ``is_stacked``.
    """
    tensors = [leaf for leaf in leaves(batch) if isinstance(leaf, torch.Tensor)]
    on_host = [tensor for tensor in tensors if tensor.device.type == "cpu"]
    count = _num_samples(tensors) if samples is None else len(samples)
    facts = BatchFacts(count, is_on_device=len(on_host) < len(tensors))
    stacked = row_hashes(batch, count) if is_stacked and count else None
    if stacked is not None:
        facts.hashes = list(stacked)
    elif samples is not None:
        facts.hashes = [content_hash(sample) for sample in samples]
    elif on_host:
        rows = [one for one in on_host if one.dim() and one.shape[0] == count]
        facts.hashes = [content_hash([one[place] for one in rows]) for place in range(count)]
    elif not tensors:
        facts.hashes = [content_hash(batch)]
    if facts.hashes is not None and all(one is None for one in facts.hashes):
        facts.hashes = None
    facts.labels = _labels(batch, count)
    _read_inputs(facts, on_host)
    _read_padding(facts, batch)
    return facts


def count_samples(batch: Any, samples: Sequence[Any] | None) -> BatchFacts:
    """Only how many samples a batch has."""
    if samples is not None:
        return BatchFacts(len(samples), is_read=False)
    tensors = [leaf for leaf in leaves(batch) if isinstance(leaf, torch.Tensor)]
    return BatchFacts(_num_samples(tensors), is_read=False)


def _num_samples(tensors: Sequence[torch.Tensor]) -> int:
    sizes = [int(tensor.shape[0]) for tensor in tensors if tensor.dim()]
    return sizes[0] if sizes else 1


def _labels(batch: Any, count: int) -> list[int] | None:
    """The label of each sample, where the batch has one whole number for each."""
    given = None
    if isinstance(batch, Mapping):
        given = next((batch[name] for name in LABELS if name in batch), None)
    elif isinstance(batch, (tuple, list)) and len(batch) >= 2:
        given = batch[1]
    if isinstance(given, torch.Tensor):
        is_whole = not (given.is_floating_point() or given.is_complex())
        if given.device.type != "cpu" or not is_whole or given.shape not in ((count,), (count, 1)):
            return None
        given = given.reshape(-1).tolist()
    is_list = isinstance(given, (tuple, list)) and len(given) == count > 0
    if not is_list or not all(isinstance(label, int) for label in given or ()):
        return None
    return list(map(int, given or ()))


def _read_inputs(facts: BatchFacts, tensors: Sequence[torch.Tensor]) -> None:
    """Read the first tensor of floats with a row for each sample: usually the input."""
    for tensor in tensors:
        is_input = tensor.is_floating_point() and tensor.dim() >= 1 and tensor.numel() > 0
        if is_input and tensor.shape[0] == facts.samples:
            break
    else:
        return
    rows = tensor.detach().reshape(facts.samples, -1)
    width = rows.shape[1]
    part = rows
    if width > _CHECKED:
        # A part of each row, at another place in every batch.
        first = (facts.hashes or [0])[0] or 0
        begin = first % (width - _CHECKED)
        part = rows[:, begin : begin + _CHECKED]
    if not torch.isfinite(part.sum(dtype=torch.float32)):
        facts.nonfinite = (~torch.isfinite(part).all(dim=1)).nonzero().reshape(-1).tolist()
    if width > 1:
        some = rows[:, :: max(1, width // _COLUMNS)]
        places = (some == some[:, :1]).all(dim=1).nonzero().reshape(-1).tolist()
        facts.constant = [one for one in places if bool((rows[one] == rows[one, 0]).all())]
    flat = rows.reshape(-1)[:: max(1, rows.numel() // _MOMENT_ELEMENTS)].to(torch.float64)
    if facts.constant and 1 < len(set(flat.tolist())) <= _FEW_VALUES:
        facts.constant = []  # answers, flags and small codes are equal by chance
    facts.constant = _unlike_others(rows, facts.constant)
    if facts.nonfinite:
        flat = flat[torch.isfinite(flat)]
    facts.moments = (flat.numel(), float(flat.sum()), float(flat.dot(flat)))


def _unlike_others(rows: torch.Tensor, constant: list[int]) -> list[int]:
    """The constant samples whose value is rare in the others: words of a text are mostly absent."""
    if not constant or len(constant) == len(rows):
        return constant
    is_other = torch.ones(len(rows), dtype=torch.bool)
    is_other[constant] = False
    others = rows[is_other, :: max(1, rows.shape[1] // _COLUMNS)]
    given = {one: float(rows[one, 0]) for one in constant}
    shares = {value: float((others == value).float().mean()) for value in set(given.values())}
    return [one for one, value in given.items() if shares[value] < _FREQUENT]


def _read_padding(facts: BatchFacts, batch: Any) -> None:
    """Lengths of sequences, from an attention mask."""
    mask = batch.get(_MASK) if isinstance(batch, Mapping) else None
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or mask.device.type != "cpu":
        return
    if mask.shape[0] == facts.samples:
        facts.lengths = (mask != 0).sum(dim=1).tolist()
        facts.positions = mask.numel()
        facts.padded = facts.positions - sum(facts.lengths)


def mixed(indices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whole numbers spread evenly over 64 bits, the same in every process."""
    with np.errstate(over="ignore"):
        bits = indices.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: np.ndarray[Any, Any] = bits ^ (bits >> np.uint64(31))
    return spread


# -- windows of batches ---------------------------------------------------------------------------


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


class Window:
    """Batches of one epoch since the last record.

    ``orders`` are digests of the order of all samples after 1, 2, 4, … batches of the epoch.
    """

    def __init__(self, indices: Sampled, hashes: Sampled, pairs: PairFigures) -> None:
        self._indices, self._hashes, self._pairs = indices, hashes, pairs
        self._samples_before = self.samples = self.all_batches = 0
        self._order = blake2b(digest_size=HASH_BYTES)
        self._num_ordered: int | None = 0  # None where a batch had no identities
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
        # Samples with values that are not finite, or all equal: how many, and the first of them.
        self._num_wrong = {"nonfinite": 0, "constant": 0}
        self._wrong: dict[str, list[int]] = {"nonfinite": [], "constant": []}
        self._moments = [0.0, 0.0, 0.0]
        self._lengths: Counter[int] = Counter()
        self._padded = self._positions = 0

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
        if indices is None and facts is not None and facts.hashes is not None:
            indices = np.asarray([one for one in facts.hashes if one is not None])
        self._add_order(indices)

    def _add_order(self, identities: np.ndarray[Any, Any] | None) -> None:
        self.all_batches += 1
        if identities is None or self._num_ordered is None:
            self._num_ordered = None
            return
        self._order.update(identities.astype(np.int64).tobytes())
        self._num_ordered += len(identities)
        if self.all_batches & (self.all_batches - 1) == 0:
            self.note_order()

    def note_order(self) -> None:
        """Add the digest of the order so far, if it is known."""
        if self._num_ordered:
            value = int.from_bytes(self._order.digest(), "little")
            digest = [self.all_batches, self._num_ordered, value]
            self.orders += [digest] if digest not in self.orders else []

    def _add_facts(
        self, facts: BatchFacts, indices: np.ndarray[Any, Any] | None, first: int
    ) -> None:
        def identity(place: int) -> int | None:
            return None if indices is None or place >= len(indices) else int(indices[place])

        mask = (1 << self._hashes.bits) - 1
        for place, one in enumerate(facts.hashes or ()):
            if one is not None and not one & mask:
                label = None if facts.labels is None else facts.labels[place]
                self._hashes.add(one, one, (identity(place), label))
        self._on_device += facts.is_on_device
        for name, places in (("nonfinite", facts.nonfinite), ("constant", facts.constant)):
            self._num_wrong[name] += len(places)
            kept = self._wrong[name]
            for place in places[: _MOST_PLACES - len(kept)]:
                known = identity(place)
                kept.append(first + place if known is None else known)
        if facts.pair is not None:
            self._pairs.add(facts.pair, facts.worker)
        if facts.labels is not None:
            self._add_labels(facts)
        if facts.moments is not None:
            self._moments = [a + b for a, b in zip(self._moments, facts.moments, strict=True)]
        self._lengths.update(map(_edge, facts.lengths))
        self._padded += facts.padded
        self._positions += facts.positions

    def _add_labels(self, facts: BatchFacts) -> None:
        assert facts.labels is not None
        if facts.samples >= _LEAST_OF_ONE_CLASS:
            self._labelled += 1
            self._of_one_class += len(set(facts.labels)) == 1
        self._labels.update(facts.labels)
        if len(self._labels) > _MOST_LABELS:
            self._labels = Counter(dict(self._labels.most_common(_MOST_LABELS)))

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
            if name == "hash" and sampled.kept:
                indices, labels = zip(*(of for _, _, of in sampled.kept), strict=True)
                for field_name, values in (("hash_indices", indices), ("hash_labels", labels)):
                    if any(one is not None for one in values):
                        record[field_name] = list(values)
            sampled.bits = bits
        if self.orders:
            record["orders"] = self.orders
        if self._labels:
            record["labels"] = {str(label): n for label, n in sorted(self._labels.items())}
            record["labelled_batches"] = self._labelled
            record["one_class_batches"] = self._of_one_class
        for name, count in self._num_wrong.items():
            if count:
                record |= {f"{name}_samples": count, f"{name}_at": self._wrong[name]}
        elements, total, squares = self._moments
        if elements:
            mean = total / elements
            deviation = math.sqrt(max(0.0, squares / elements - mean * mean))
            if math.isfinite(mean) and math.isfinite(deviation):
                record["mean"], record["std"] = mean, deviation
        if self._positions:
            record["padding"] = self._padded / self._positions
            record["lengths"] = {
                "mean": (self._positions - self._padded) / self._lengths.total(),
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
