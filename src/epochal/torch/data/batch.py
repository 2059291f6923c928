"""What one batch is: hashes of its samples, labels, padding, and inputs that are wrong.

The hash of a sample's content is made from at most a few kilobytes of it. Every array of two or
more elements counts, and every text and float. Single whole numbers do not: a label or an id must
not make two copies of one sample differ. Batches are read where they are collated, in a worker if
there are any. Tensors on an accelerator are never read.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from epochal.torch.data.pairs import PairFacts

LABELS = ("label", "labels", "target", "targets", "y")

# Hashes have so many bytes: a JSON number that every reader keeps exactly.
HASH_BYTES = 6
# Of a larger array, only elements at equal distances are read.
_WHOLE_BYTES = 1024
_ELEMENTS = 256
_DEPTH = 8


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """Tensors, arrays, texts and numbers of a sample or batch, in order."""
    if isinstance(value, (torch.Tensor, np.ndarray, str, bytes, int, float)):
        yield value
    elif depth < _DEPTH:
        if isinstance(value, Mapping):
            value = value.values()
        elif hasattr(value, "__array__"):
            value = (np.asarray(value),)  # a picture, for example
        elif is_dataclass(value):
            value = vars(value).values()
        elif not isinstance(value, (tuple, list)):
            return
        for item in value:
            yield from leaves(item, depth + 1)


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
    if not array.flags.c_contiguous:
        # In the order in which it lies in memory, so that nothing is copied.
        array = array.transpose(np.argsort([-stride for stride in array.strides], kind="stable"))
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    distance = _distance(array.size)
    return np.ascontiguousarray(flat[::distance]).tobytes()


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


# -- batches ------------------------------------------------------------------------------------


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
    labels: dict[int, int] | None = None
    nonfinite: list[int] = field(default_factory=list)
    constant: list[int] = field(default_factory=list)
    moments: tuple[int, float, float] | None = None  # elements, their sum, the sum of squares
    lengths: list[int] | None = None
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


def _labels(batch: Any, count: int) -> dict[int, int] | None:
    """How often each label occurs, where the batch has one whole number for each sample."""
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
    return dict(Counter(map(int, given or ())))


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
