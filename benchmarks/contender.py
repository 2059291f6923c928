"""The shape every contender has.

A contender is one way of logging scalars. Its class is imported twice: by the driver, which only
reads the attributes, and by a worker in the contender's own environment, which calls the methods.
So the module may import the tool it stands for only inside the methods.

Each method is called in a fresh process: `open`, many calls of what it returned, `close`; or
`read_steps` alone. `open` returns the tool's own function wherever its signature fits, so that no
wrapper of ours is timed. What is measured is the tool as a user gets it by default; only printing
and uploading are off.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

Role = Literal["control", "baseline", "ours", "peer"]


class Log(Protocol):
    """Logs the scalars of one step; once it has returned, the step counts as acknowledged."""

    def __call__(self, values: dict[str, float], /, *, step: int) -> object: ...


class Contender(Protocol):
    name: str
    role: Role
    # Distributions to install; the first one is the tool. Empty: the project's own environment.
    requirements: tuple[str, ...]
    import_statement: str

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        """Start a run that keeps everything under `directory`."""

    def close(self) -> None:
        """End the run in the ordinary way."""

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        """The steps for which every key comes back through the tool's own reader."""
