"""One tensor on its way to the host, while the GPU and the program go on."""

from __future__ import annotations

import torch
from torch import Tensor


class Arriving:
    """A copy in main memory; from a GPU it is there when the stream in use comes to it."""

    def __init__(self, tensor: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if not tensor.is_cuda:
            self._host = tensor.detach().cpu()
            return
        self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        with torch.cuda.device(tensor.device), torch.no_grad():
            self._host.copy_(tensor, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def has_arrived(self) -> bool:
        """Whether reading it would not wait."""
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]

    def read(self) -> Tensor:
        """The copy; waits while it is on its way."""
        if self._event is not None:
            self._event.synchronize()
        return self._host
