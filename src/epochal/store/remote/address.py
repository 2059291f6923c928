"""Opens the runs behind the address of a hub or a server, such as ``https://host``."""

from __future__ import annotations

from epochal.errors import UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.settings import cache_folder, read_settings
from epochal.shipping.client import check_url
from epochal.shipping.credentials import hub_token, linked_token
from epochal.store.remote.store import RemoteStore


def open_remote(
    address: str, *, token: str | None = None, rules: RuleSettings | None = None
) -> RemoteStore:
    """The runs behind an address; no request is sent yet.

    Without a token, it is the one of a link (``?token=…``), else the one that the settings have
    for their hub. It is not sent to any other server.
    """
    url = check_url(address)
    if token is None:
        token = linked_token(address) or _own_token(url)
    return RemoteStore(url, token=token, cache=cache_folder(), rules=rules)


def hub_address(given: str | None) -> str:
    """The address of ``--hub URL``; of ``--hub`` alone, the one that the settings have."""
    found = given or read_settings().hub
    if found is None:
        raise UsageError("no hub is known: give its address, or set EPOCHAL_HUB.")
    return found


def _own_token(url: str) -> str | None:
    settings = read_settings()
    is_other = settings.hub is not None and check_url(settings.hub) != url
    return None if is_other else hub_token(settings)
