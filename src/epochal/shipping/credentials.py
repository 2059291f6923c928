"""The token of this machine's hub, and how a file states a token."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from epochal.errors import UsageError
from epochal.settings import Settings

_MAX_TOKEN = 4096


def hub_token(settings: Settings) -> str | None:
    """The token of the environment or of the file that the settings name."""
    if settings.hub_token is not None or settings.hub_token_file is None:
        return settings.hub_token
    return first_line(
        settings.hub_token_file, str(settings.sources.get("hub_token_file", "hub.token_file"))
    )


def linked_token(address: str) -> str | None:
    """The token of a link, ``https://host/?token=…``; None in any other address."""
    found = parse_qs(urlsplit(address).query).get("token")
    return found[0] if found else None


def first_line(path: str, named_by: str) -> str:
    """The token in the first line of a file; raises ``UsageError`` where there is none."""
    try:
        with open(Path(path).expanduser(), encoding="utf-8") as file:
            token = file.readline(_MAX_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{named_by}: cannot read {path}: {reason}.") from error
    if not token:
        raise UsageError(f"{named_by}: the first line of {path} is empty.")
    return token
