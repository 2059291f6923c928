"""The exceptions of ``wandb.errors``, under the names that scripts catch."""

from __future__ import annotations

from epochal.errors import EpochalError


class Error(EpochalError):
    """The base of what ``wandb`` raises."""

    def __init__(self, message: str = "", context: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.context = context


class CommError(Error):
    """Something is not known to the local store; W&B raises it when its server does not answer."""


class UsageError(Error, ValueError):
    """A call that cannot be accepted."""


class AuthenticationError(CommError):
    """Never raised: nothing is sent anywhere."""


class UnsupportedError(UsageError):
    """A feature that Epochal does not have."""


class ConfigError(Error):
    """An entry of the configuration would change without ``allow_val_change``."""


RequireError = UnsupportedError
