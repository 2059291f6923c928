"""Keeps records whose values are not there yet, while the program goes on.

A tensor of torch on a GPU is copied beside the training (``TorchHooks.open_reader``). JAX
computes asynchronously on every device, and asking for a value waits for it: its arrays are read in
a thread. Arrays never change, so the value is the one that was logged; one that was donated to a
later computation is lost, and the run says so.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from epochal.guard import attempt, describe
from epochal.records import Record
from epochal.torch_hooks import torch_hooks
from epochal.values import DeviceReader, device_values, is_jax_array, plain_number

MAX_PENDING = 4096  # one more waits until the oldest is read


class PendingValues:
    """The records of a run that wait for values; a reader is made when the first one comes.

    ``then`` takes a record whose values have come, ``lost`` how many never will, and why.
    """

    def __init__(self, then: Callable[[Record], None], lost: Callable[[int, str], None]) -> None:
        self._calls = then, lost
        self._lock = threading.Lock()
        self._readers: dict[Callable[..., DeviceReader], DeviceReader] = {}

    def defer(self, record: Record) -> bool:
        """Keep a record until its values have come; False for one that has them all."""
        is_of_jax = bool(device_values(record, is_jax_array))
        if not is_of_jax and not device_values(record):
            return False
        make = ArrayReader if is_of_jax else torch_hooks().open_reader
        with self._lock:
            if make not in self._readers:
                self._readers[make] = make(*self._calls)
        self._readers[make].defer(record)
        return True

    def flush(self) -> None:
        """Wait until every record has been handed on."""
        for reader in list(self._readers.values()):
            reader.flush()


class ArrayReader:
    """Hands records on when their arrays are computed; safe to use from several threads."""

    def __init__(self, then: Callable[[Record], None], lost: Callable[[int, str], None]) -> None:
        self._then = then
        self._lost = lost
        self._records: queue.Queue[Record] = queue.Queue(MAX_PENDING)
        name = "epochal-array-values"
        threading.Thread(target=self._read, name=name, daemon=True).start()

    def defer(self, record: Record) -> None:
        """Hand the record on when the arrays it holds are computed."""
        for _, _, value in device_values(record, is_jax_array):
            attempt(value.copy_to_host_async)
        self._records.put(record)

    def flush(self) -> None:
        """Wait until every record has been handed on."""
        self._records.join()

    def _read(self) -> None:
        while True:
            record = self._records.get()
            _, error = attempt(self._hand_on, record)
            if error is not None:
                attempt(self._lost, 1, describe(error).partition("\n")[0])
            self._records.task_done()

    def _hand_on(self, record: Record) -> None:
        filled = dict(record)
        for inner, name, value in device_values(record, is_jax_array):
            if inner is not None and filled[inner] is record[inner]:
                filled[inner] = dict(record[inner])
            target = filled if inner is None else filled[inner]
            target[name] = plain_number(value, name=name)
        self._then(filled)
