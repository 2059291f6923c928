"""A model at one moment, apart from the model: for saving it while training goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from epochal.torch.checkpoint.file import Content, Source, write_checkpoint
from epochal.torch.checkpoint.model_file import content_of
from epochal.torch.checkpoint.named_tensors import Hash, Named, NamedTensors
from epochal.torch.host_copy import HostCopy, copied_to_host


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """Copies of a model's parameters and buffers in main memory, with its structural hash.

    May be handed to another thread. Made by `snapshot_cpu`.
    """

    hash: str | None
    shared: Mapping[str, str]
    _copies: HostCopy

    def tensors(self) -> dict[str, Tensor]:
        """Return the copies by name, shared ones once; waits for those still on their way."""
        return self._copies.ready()

    def save_file(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the file that `save_checkpoint` would have written at that moment."""
        self._write(path, overwrite=overwrite)

    def _write(self, path: Source, *, overwrite: bool) -> None:
        content = Content(self.tensors(), self.shared, self.hash)
        write_checkpoint(path, content, overwrite=overwrite)


def snapshot_cpu(
    named: Named,
    buffers: NamedTensors | None = None,
    hash: Hash = "auto",  # noqa: A002 (as in save_checkpoint)
) -> ModelSnapshot:
    """Copy a model to main memory and go on training.

    On the CPU this is a true copy. From a GPU the copies go into pinned memory behind the work
    already queued, and the call returns without waiting for them.
    """
    content = content_of(named, buffers, hash)
    own = {name: t for name, t in content.tensors.items() if name not in content.shared}
    return ModelSnapshot(content.hash, content.shared, copied_to_host(own))
