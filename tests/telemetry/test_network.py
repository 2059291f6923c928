from types import SimpleNamespace

import psutil
import pytest

from epochal.telemetry.network import network_source


def test_rates_are_over_every_interface_but_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def counters(*, pernic: bool) -> dict[str, SimpleNamespace]:
        assert pernic
        at = next(received)
        return {
            "lo": SimpleNamespace(bytes_recv=at * 100, bytes_sent=0),
            "eth0": SimpleNamespace(bytes_recv=at, bytes_sent=7),
            "ib0": SimpleNamespace(bytes_recv=at, bytes_sent=7),
        }

    received, seconds = iter([100, 300]), iter([0.0, 2.0])
    monkeypatch.setattr(psutil, "net_io_counters", counters)
    source = network_source(clock=lambda: next(seconds))
    assert source.sample()[0].received is None
    (sample,) = source.sample()
    assert (sample.received, sample.sent) == (200, 0)


def test_a_machine_without_network_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: {})
    source = network_source()
    source.sample()
    assert source.sample()[0].received is None
