"""What several commands say of a run in the same words: how far it is, what was found."""

from __future__ import annotations

from epochal.store.answers import RunInfo


def progress_text(info: RunInfo, *, between: str = "/") -> str | None:
    """The steps, or the epochs, that are done of those there are to be; None before the first.

    A run that has gone beyond what it was meant to do says both, but not as a share.
    """
    if info.step is not None:
        if info.steps_done is None or info.total_steps is None:
            return str(info.step)
        if info.step > info.total_steps:
            return f"{info.step} (of {info.total_steps})"
        return f"{info.steps_done}{between}{info.total_steps}"
    epochs = epochs_text(info, between=between)
    return None if epochs is None else f"ep {epochs}"


def epochs_text(info: RunInfo, *, between: str = "/") -> str | None:
    """The epochs that are done of those there are to be; None before the first."""
    if info.epoch is None or info.num_epochs is None:
        return None if info.epoch is None else str(info.epoch)
    if info.epoch > info.num_epochs:
        return f"{info.epoch} (of {info.num_epochs})"
    return f"{info.epoch}{between}{info.num_epochs}"


def findings_text(info: RunInfo) -> str | None:
    """How many findings still hold, ``2 errors, 1 warning``; None where nobody looked for any."""
    if info.errors is None or info.warnings is None:
        return None
    counts = ((info.errors, "error"), (info.warnings, "warning"))
    return ", ".join(_counted(number, word) for number, word in counts if number) or "none"


def gravest_text(info: RunInfo) -> str | None:
    """The same in short: the errors, or the warnings where there are no errors."""
    for number, word in ((info.errors, "error"), (info.warnings, "warning")):
        if number:
            return _counted(number, word)
    return None if info.errors is None else "none"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
