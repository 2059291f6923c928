from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder
from epochal.sinks.forward import Forwarder
from epochal.sinks.ledger import Ledger
from epochal.sinks.members.json_log import JsonLogOptions
from tests.sinks.doubles import Failing, Memory, MemorySink, into
from tests.sinks.journal_files import metrics, run_folder, write


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return run_folder(tmp_path / "run")


def forwarder(folder: RunFolder, memory: Memory, *, batch_records: int = 100) -> Forwarder:
    return Forwarder(
        folder,
        "json_log",
        JsonLogOptions(),
        ledger=Ledger(folder),
        make=into(memory),
        batch_records=batch_records,
    )


def send_all(folder: RunFolder, memory: Memory) -> None:
    sender = forwarder(folder, memory)
    sender.open()
    while sender.forward():
        pass
    sender.close()


def test_everything_is_sent_once_over_several_openings(folder: RunFolder) -> None:
    memory = Memory()
    write(folder, metrics(0), metrics(1))
    send_all(folder, memory)
    write(folder, metrics(2))
    send_all(folder, memory)
    assert memory.steps == [0, 1, 2]
    assert memory.states[-1] == {"held": 3}


def test_state_is_kept_before_the_first_record(folder: RunFolder) -> None:
    forwarder(folder, Memory()).open()
    assert Ledger(folder).progress("json_log").state == {"held": 0}


def test_status_of_the_run_is_passed_on(folder: RunFolder) -> None:
    memory = Memory()
    write(folder, metrics(0), {"log": "finish", "t": 9.0, "status": "failed"})
    send_all(folder, memory)
    send_all(folder, memory)
    assert memory.closed == ["failed", "failed"]


def test_unconfirmed_batch_is_handed_over_again_as_it_was(folder: RunFolder) -> None:
    memory = Memory()
    write(folder, metrics(0), metrics(1))
    sender = Forwarder(
        folder,
        "json_log",
        JsonLogOptions(),
        ledger=Ledger(folder),
        make=lambda _name: MemorySink(memory, Failing(1)),
    )
    sender.open()
    with pytest.raises(ConnectionError):
        sender.forward()
    write(folder, metrics(2))
    again = forwarder(folder, memory)
    again.open()
    again.forward()
    assert memory.steps == [0, 1]
    again.forward()
    assert memory.steps == [0, 1, 2]


def test_everything_is_sent_again_when_the_target_is_gone(folder: RunFolder) -> None:
    memory = Memory()
    write(folder, metrics(0), metrics(1))
    send_all(folder, memory)
    memory.is_kept = False
    send_all(folder, memory)
    assert memory.steps == [0, 1, 0, 1]
    assert Ledger(folder).progress("json_log").num_sent == 3


def test_how_far_behind_is_noted_while_sending(folder: RunFolder) -> None:
    write(folder, *(metrics(step) for step in range(9)))
    sender = forwarder(folder, Memory(), batch_records=4)
    sender.open()
    sender.forward()
    assert Ledger(folder).progress("json_log").behind == 6
    sender.forward()
    sender.forward()
    assert Ledger(folder).progress("json_log").behind == 0


def test_nothing_new_is_known_without_opening(folder: RunFolder) -> None:
    memory = Memory()
    write(folder, metrics(0))
    assert forwarder(folder, memory).has_news()
    send_all(folder, memory)
    assert not forwarder(folder, memory).has_news()
    write(folder, metrics(1))
    assert forwarder(folder, memory).has_news()


def test_run_without_an_identity_is_sent_as_well(folder: RunFolder) -> None:
    folder.identity.write_text("{", encoding="utf-8")
    memory = Memory()
    write(folder, metrics(0))
    send_all(folder, memory)
    assert memory.steps == [0]
