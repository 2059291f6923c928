from collections.abc import Callable

import pytest

from epochal.exchange.sinks import worker
from epochal.exchange.sinks.ledger import Ledger
from epochal.exchange.sinks.reporting import options_from
from epochal.exchange.sinks.sink import Sink, SinkUnavailableError
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder
from tests.exchange.sinks.doubles import Failing, Hanging, Memory, MemorySink, into
from tests.exchange.sinks.journal_files import metrics, write

WAIT_S = 120.0


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_FIRST_PAUSE_S", 0.001)


def forwarding(
    folder: RunFolder, *names: str, make: Callable[[str], Sink], tries: int | None = None
) -> Forwarding:
    reporting = options_from({"report_to": names})
    return Forwarding(folder, reporting, look_every_s=0.01, tries=tries, make=make)


def test_sends_what_comes_and_ends_when_told(folder: RunFolder) -> None:
    memory = Memory()
    sending = forwarding(folder, "aim", make=into(memory))
    sending.start()
    write(folder, metrics(2))
    sending.finish()
    assert sending.wait(WAIT_S)
    assert memory.steps == [0, 1, 2]
    assert sending.unsent() == {}
    assert memory.closed == [None]


def test_failing_sink_is_tried_again_with_nothing_twice(folder: RunFolder) -> None:
    memory, failing = Memory(), Failing(3)
    sending = forwarding(folder, "aim", make=lambda _name: MemorySink(memory, failing))
    sending.finish()
    sending.start()
    assert sending.wait(WAIT_S)
    assert memory.steps == [0, 1]
    assert Ledger(folder).progress("aim").error is None


def test_giving_up_says_why_and_how_much_is_left(folder: RunFolder) -> None:
    sending = forwarding(
        folder, "aim", make=lambda _name: MemorySink(Memory(), Failing(99)), tries=3
    )
    sending.finish()
    sending.start()
    assert sending.wait(WAIT_S)
    progress = Ledger(folder).progress("aim")
    assert (progress.phase, progress.failures, progress.behind) == ("stopped", 3, 3)
    assert sending.unsent() == {"aim": "3 records behind: ConnectionError: no network"}


def test_hanging_and_failing_sinks_keep_nobody_waiting(folder: RunFolder) -> None:
    memory, hanging = Memory(), Hanging()
    sinks = {
        "aim": lambda: MemorySink(Memory(), hanging),
        "mlflow": lambda: MemorySink(Memory(), Failing(99)),
        "wandb": lambda: MemorySink(memory),
    }
    sending = forwarding(folder, *sinks, make=lambda name: sinks[name]())
    sending.finish()
    sending.start()
    assert hanging.began.wait(WAIT_S)
    assert sending.workers[2].join(WAIT_S)
    assert memory.steps == [0, 1]
    assert sending.is_busy
    assert sending.unsent().keys() == {"aim", "mlflow"}
    sending.stop()
    hanging.may_go.set()
    assert sending.wait(WAIT_S)


def test_missing_package_ends_only_its_own_sink(folder: RunFolder) -> None:
    def make(name: str) -> Sink:
        if name == "aim":
            raise SinkUnavailableError("pip install 'epochal[aim]'")
        return MemorySink(memory)

    memory = Memory()
    sending = forwarding(folder, "aim", "wandb", make=make)
    sending.finish()
    sending.start()
    assert sending.wait(WAIT_S)
    assert Ledger(folder).progress("aim").phase == "stopped"
    assert Ledger(folder).progress("wandb").is_done
    assert "pip install" in sending.unsent()["aim"]


def test_run_deleted_meanwhile_ends_the_sending(folder: RunFolder) -> None:
    sending = forwarding(folder.__class__(folder.path / "gone"), "aim", make=into(Memory()))
    sending.start()
    assert sending.wait(WAIT_S)
    assert sending.unsent().keys() == {"aim"}


def test_stopped_sending_goes_on_later(folder: RunFolder) -> None:
    memory = Memory()
    first = forwarding(folder, "aim", make=into(memory))
    first.start()
    first.stop()
    assert first.wait(WAIT_S)
    second = forwarding(folder, "aim", make=into(memory))
    second.finish()
    second.start()
    assert second.wait(WAIT_S)
    assert memory.steps == [0, 1]
