"""What several commands say of a run in the same words: how far it is, what was found."""

from __future__ import annotations

from epochal.format import plural
from epochal.store.row import RunRow


def progress_text(info: RunRow, *, between: str = "/") -> str | None:
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


def epochs_text(info: RunRow, *, between: str = "/") -> str | None:
    """The epochs that are done of those there are to be; None before the first."""
    if info.epoch is None or info.num_epochs is None:
        return None if info.epoch is None else str(info.epoch)
    if info.epoch > info.num_epochs:
        return f"{info.epoch} (of {info.num_epochs})"
    return f"{info.epoch}{between}{info.num_epochs}"


def findings_text(info: RunRow) -> str | None:
    """The number of findings, ``2 errors, 1 warning (resolved)``; None if no rules ran."""
    if info.errors is None:
        return None
    found = ", ".join(text for text in _counts(info) if text) or "none"
    if not info.is_partly_watched:
        return found
    return f"{found} so far; 'epochal doctor' looks at what nobody watched"


def most_severe_text(info: RunRow) -> str | None:
    """The same in short: the errors, or the warnings where there are no errors.

    A ``+`` behind it says that an attempt was not watched to its end.
    """
    if info.errors is None:
        return None
    found = next((text for text in _counts(info) if text), "none")
    return f"{found} +" if info.is_partly_watched else found


def _counts(info: RunRow) -> tuple[str, str]:
    return (
        _counted(info.errors or 0, info.open_errors or 0, "error"),
        _counted(info.warnings or 0, info.open_warnings or 0, "warning"),
    )


def _counted(number: int, num_open: int, word: str) -> str:
    if not number:
        return ""
    words = plural(number, word)
    if num_open == number:
        return words
    return f"{words} ({num_open} open)" if num_open else f"{words} (resolved)"
