import errno
from pathlib import Path
from typing import Any

import pytest

from epochal.exchange.sinks.forward import Forwarder
from epochal.exchange.sinks.ledger import Ledger
from epochal.exchange.sinks.members.json_log import JsonLogOptions
from epochal.exchange.sinks.reporting import options_from
from epochal.exchange.sinks.sink import NUMBERS, Entry, SinkContext
from epochal.exchange.sinks.unsent import sentences
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder
from tests.conftest import StartRun
from tests.exchange.sinks.doubles import Failing, Memory, MemorySink, into
from tests.exchange.sinks.journal_files import metrics, run_folder, write


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


class Picky(MemorySink):
    """Holds numbers, texts and images; rejects some texts."""

    holds = (*NUMBERS, "text", "blob:image/*")

    def open(self, context: SinkContext) -> bool:
        self._context = context
        return super().open(context)

    def write(self, entry: Entry) -> None:
        if entry.kind == "blob":
            self._context.file(entry.record)
        if entry.record.get("text") == "bad":
            raise ValueError("bad text")
        super().write(entry)


def text(words: str) -> dict[str, Any]:
    return {"log": "text", "t": 1.0, "step": 1, "name": "a", "text": words}


def blob(media_type: str, file: str) -> dict[str, Any]:
    return {"log": "blob", "t": 1.0, "step": 1, "name": "b", "media_type": media_type, "file": file}


def picky(folder: RunFolder, memory: Memory) -> Forwarder:
    make = lambda _name: Picky(memory)  # noqa: E731
    return Forwarder(folder, "json_log", JsonLogOptions(), ledger=Ledger(folder), make=make)


def test_what_the_target_cannot_hold_is_skipped_and_counted(folder: RunFolder) -> None:
    memory = Memory()
    folder.blobs.mkdir()
    (folder.blobs / "a").write_bytes(b"x")
    write(
        folder,
        {"log": "message", "t": 1.0, "text": "of no use to trackers"},
        *(metrics(0), blob("audio/wav", "a"), blob("image/png", "a"), blob("image/png", "gone")),
        *(text("bad"), text("good"), text("bad"), metrics(1)),
    )
    for _ in range(2):
        sender = picky(folder, memory)
        sender.open()
        while sender.forward():
            pass
        sender.close()
    kinds = [entry.kind for entry in memory.entries]
    assert kinds == ["run", "metrics", "blob", "text", "metrics"]
    progress = Ledger(folder).progress("json_log")
    assert progress.num_sent == 5
    assert progress.skipped == {
        "not held": {"audio clip": 1},
        "file missing": {"image": 1},
        "rejected": {"text": 2},
    }
    assert sentences("diary", progress.skipped, progress.rejection) == [
        "1 audio clip was not sent: diary cannot hold it.",
        "1 image was not sent: the file is missing.",
        "2 texts were not sent: diary rejected them (ValueError: bad text).",
    ]


def test_a_batch_of_which_nothing_is_accepted_is_tried_again_first(folder: RunFolder) -> None:
    memory = Memory()
    write(folder, metrics(0))
    sender = picky(folder, memory)
    sender.open()
    sender.forward()
    write(folder, text("bad"))
    for _ in range(2):
        with pytest.raises(ValueError, match="bad text") as raised:
            sender.forward()
        sender.abandon(raised.value, is_final=False)
        sender.open()
    assert sender.forward() == 1
    assert Ledger(folder).progress("json_log").skipped == {"rejected": {"text": 1}}


def test_errors_that_may_pass_are_told_from_rejections() -> None:
    sink = MemorySink(Memory())
    no_answer, no_image = OSError("no connection"), OSError("cannot identify image file")
    no_answer.response = None  # type: ignore[attr-defined]
    passing = (ConnectionError(), TimeoutError(), OSError(28, "disk full"), no_answer)
    too_long = OSError(errno.ENAMETOOLONG, "name too long")
    assert all(sink.may_pass(error) for error in passing)
    assert not any(sink.may_pass(error) for error in (no_image, too_long, KeyError()))


def test_run_without_an_identity_is_sent_as_well(folder: RunFolder) -> None:
    folder.identity.write_text("{", encoding="utf-8")
    memory = Memory()
    write(folder, metrics(0))
    send_all(folder, memory)
    assert memory.steps == [0]


def test_labels_that_a_target_does_not_get_are_counted_once(start_run: StartRun) -> None:
    run = start_run(group="g", tags=["a", "b"])
    for _ in range(2):
        run.log({"loss": 1.0})
        forwarding = Forwarding(RunFolder(run.dir), options_from({"report_to": "tensorboard"}))
        forwarding.finish()
        forwarding.start()
        assert forwarding.wait(120)
    progress = forwarding.progress_by_sink()["tensorboard"]
    assert sentences("tensorboard", progress.skipped, "") == [
        "1 group and 2 tags were not sent: tensorboard cannot hold them."
    ]
