"""What a load did, name by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Which tensors a load filled; a tensor with several names goes by its first.

    `loaded` and `missing` (in the model, not in the file: kept as they were) are in the model's
    order, `skipped` (in the file, not in the model: ignored) in the file's.
    """

    loaded: tuple[str, ...]
    skipped: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether file and model held exactly the same names."""
        return not self.skipped and not self.missing

    def __str__(self) -> str:
        return (
            f"{len(self.loaded)} loaded, {len(self.skipped)} skipped, {len(self.missing)} missing"
        )
