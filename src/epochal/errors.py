"""Every error Epochal raises on purpose, one sentence each.

    EpochalError
    ├── UsageError (also ValueError)            the caller's mistake: names argument and remedy
    │   └── ValueTypeError (also TypeError)     a value of a kind that cannot be logged
    ├── RunFinishedError                        something was logged after finish()
    ├── RunNotFoundError (also LookupError)     no run of that name, id or path
    ├── MetricNotFoundError (also LookupError)  no series of that name in the run
    ├── FormatError (also ValueError)           a file that is not what it should be
    ├── MissingPackageError (also ImportError)  a package that a small install left out
    └── InternalError                           a defect that nobody foresaw

Nothing environmental (a full disk, a folder that vanished) is ever raised into a training loop
after ``init``: such faults are counted and said once by the journal writer.
"""

from __future__ import annotations

from epochal.version import __version__

# Packages whose name for pip is not the name of their module.
_PACKAGES = {
    "PIL": "pillow",
    "pynvml": "nvidia-ml-py",
    "ray": "ray[tune]",
    "re2": "google-re2",
    "stable_baselines3": "stable-baselines3",
    "yaml": "PyYAML",
}


class EpochalError(Exception):
    """The base of every error Epochal raises on purpose."""


class UsageError(EpochalError, ValueError):
    """An argument that cannot be accepted; the sentence names it and what is accepted."""


class ValueTypeError(UsageError, TypeError):
    """A value of a kind that cannot be logged; the sentence names it and what takes it."""


class RunFinishedError(EpochalError, RuntimeError):
    """Something was logged to a run that is already finished."""


class RunNotFoundError(EpochalError, LookupError):
    """A run asked for by name, id or path does not exist."""


class MetricNotFoundError(EpochalError, LookupError):
    """A series that was asked for is not in the run; the sentence names near ones."""


class FormatError(EpochalError, ValueError):
    """A file is not in the format it should be in; the sentence names the file and the place."""


class MissingPackageError(EpochalError, ImportError):
    """A package is not installed; the sentence names what needs it and how to add it."""

    def __init__(self, what: str, error: ModuleNotFoundError, *, extra: str | None = None) -> None:
        module = (error.name or "").partition(".")[0]
        if module == "epochal":
            reason = f"is not part of this installation: it has no module {error.name!r}."
        else:
            package = _PACKAGES.get(module, module)
            install = package if extra is None else f"'epochal[{extra}]'"
            reason = f"needs the package {package!r}: pip install {install}."
        super().__init__(f"{what} {reason}")


class InternalError(EpochalError):
    """A member failed for a reason that nobody foresaw: a defect of ours, or of its package."""

    def __init__(self, sentence: str, *, package: str | None = None) -> None:
        whose = f"Epochal {__version__}" if package is None else f"the package {package!r}"
        super().__init__(f"{sentence} This is a defect of {whose}: please report it.")
