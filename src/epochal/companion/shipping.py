"""Ships a run to its hub while it is recorded; nothing of the training waits for it."""

from __future__ import annotations

from epochal.companion.config import CompanionConfig
from epochal.companion.own_journal import OwnJournal
from epochal.errors import EpochalError
from epochal.guard import Guard
from epochal.journal.layout import RunFolder
from epochal.settings import read_settings
from epochal.shipping.client import HubClient
from epochal.shipping.credentials import hub_token
from epochal.shipping.node import NodeShipper
from epochal.shipping.shipper import Shipper
from epochal.shipping.worker import ShippingWorker


class HubShipping:
    """The shipping of one run, from its start to its last job."""

    def __init__(self, folder: RunFolder, url: str, worker: ShippingWorker) -> None:
        self._folder = folder
        self._url = url
        self._worker = worker
        self._is_finishing = False

    @property
    def command(self) -> str:
        """The command that sends the rest."""
        return f"epochal push {self._folder.path} --to {self._url}"

    @property
    def is_busy(self) -> bool:
        """Whether the worker is at work, or hangs."""
        return self._worker.is_busy

    def start(self) -> None:
        """Begin to ship."""
        self._worker.start()

    def go_on(self) -> bool:
        """No more will be written: whether something is still to be sent."""
        if not self._is_finishing:
            self._is_finishing = True
            self._worker.finish()
        return self._worker.is_busy

    def stop(self) -> None:
        """Time is up."""
        self._worker.stop()

    def left(self) -> str | None:
        """What the hub does not have, and why."""
        if self._worker.is_complete:
            return None
        return f"not everything was sent to the hub: {self._worker.error or 'it takes longer'}"


def open_shipping(config: CompanionConfig, journal: OwnJournal, guard: Guard) -> HubShipping | None:
    """The shipping that the settings ask for; None without a hub."""
    settings = read_settings()
    if settings.hub is None:
        return None
    try:
        client = HubClient(settings.hub, hub_token(settings))
    except (EpochalError, OSError) as error:
        journal.event("hub-failed", reason=str(error))
        return None
    worker = ShippingWorker(
        config.folder,
        client,
        bytes_per_s=settings.hub_bytes_per_s,
        on_error=lambda sentence: journal.event("hub-failed", reason=sentence),
        guard=guard,
        shipper_type=NodeShipper if config.is_aside else Shipper,
    )
    return HubShipping(config.folder, client.url, worker)
