"""Sinks are found by their files, and by entry points of other packages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.base.guard import Guard
from epochal.errors import UsageError
from epochal.exchange.sinks import members
from epochal.exchange.sinks.registry import all_sinks, own_sinks
from epochal.exchange.sinks.reporting import options_from, split_options
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder
from tests.doubles.packages import installed_package

WAIT_S = 120.0
SINK = """
from dataclasses import dataclass
from pathlib import Path

from epochal.exchange.sinks.sink import Sink, SinkOptions, option


@dataclass(frozen=True, slots=True, kw_only=True)
class DiaryOptions(SinkOptions):
    diary_file: str | None = option("the file", is_path=True, starts_sink=True)


class DiarySink(Sink):
    name = "diary"
    options = DiaryOptions

    def open(self, context):
        self.path = Path(context.options.diary_file)
        return True

    def write(self, entry):
        with self.path.open("a") as file:
            file.write(f"{entry.step}\\n" if entry.kind == "metrics" else "")

    def flush(self):
        return {}

    def close(self, status):
        return {}
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages, with one that says it has a sink."""
    with installed_package(
        tmp_path, "run_diary", "[epochal.sinks]\ndiary = run_diary:DiarySink\n"
    ) as installed:
        yield installed


def send(folder: RunFolder, options: dict[str, object], guard: Guard) -> None:
    forwarding = Forwarding(folder, options_from(options), tries=1, guard=guard)
    forwarding.finish()
    forwarding.start()
    assert forwarding.wait(WAIT_S)
    assert forwarding.unsent() == {}


def test_every_file_has_one_sink_of_its_name() -> None:
    files = {path.stem for path in Path(members.__path__[0]).glob("*.py")} - {"__init__"}
    assert own_sinks().keys() == files
    assert all(sink.__module__.endswith(f".{name}") for name, sink in own_sinks().items())


def test_another_package_adds_a_sink(package: Path, folder: RunFolder, tmp_path: Path) -> None:
    (package / "run_diary.py").write_text(SINK)
    guard = Guard()
    reporting = options_from({"diary_file": "days.txt"}, base=tmp_path)
    assert reporting.report_to == ("diary",)
    send(folder, {"report_to": "diary", "diary_file": str(tmp_path / "days.txt")}, guard)
    assert (tmp_path / "days.txt").read_text() == "0\n1\n"
    assert guard.faults == {}


def test_options_of_another_package_are_told_from_configuration(package: Path) -> None:
    (package / "run_diary.py").write_text(SINK)
    entries = {"diary_file": "days.txt", "diary_pages": 3, "lr": 0.1}
    assert split_options(entries) == ({"diary_file": "days.txt"}, {"diary_pages": 3, "lr": 0.1})


@pytest.mark.parametrize(
    "source",
    [
        "import no_such_package",
        "DiarySink = 3",
        SINK.replace('"diary"', '"wandb"'),
        SINK.replace("diary_file", "project"),
        SINK.replace("options = DiaryOptions", "options = dict"),
    ],
)
def test_a_sink_that_cannot_be_loaded_is_one_fault_and_left_out(package: Path, source: str) -> None:
    (package / "run_diary.py").write_text(source)
    guard = Guard()
    assert all_sinks(guard) == own_sinks()
    assert list(guard.faults) == ["sink diary"]


def test_a_run_goes_to_the_other_sinks_and_records_the_fault(
    package: Path, folder: RunFolder
) -> None:
    (package / "run_diary.py").write_text("import no_such_package")
    guard = Guard()
    send(folder, {"report_to": "json_log"}, guard)
    assert (folder.path / "training.json").is_file()
    assert list(guard.faults) == ["sink diary"]


def test_asking_for_a_sink_that_cannot_be_loaded_says_why(package: Path) -> None:
    (package / "run_diary.py").write_text("import no_such_package")
    with pytest.raises(UsageError, match=r"'diary': the sink cannot be loaded.*no_such_package"):
        options_from({"report_to": "diary"})


def test_a_training_process_loads_sinks_only_to_check_options_and_never_a_tracker() -> None:
    script = (
        "import sys, epochal.run.start\n"
        "from epochal.exchange.sinks.reporting import options_from, split_options\n"
        "options_from({}), options_from({'report_to': None}), split_options({})\n"
        "members = 'epochal.exchange.sinks.members.'\n"
        "assert not any(name.startswith(members) for name in sys.modules)\n"
        "options_from({'report_to': 'tensorboard', 'wandb_project': 'p'})\n"
        "print(sorted({'numpy', 'wandb', 'aim', 'mlflow', 'trackio'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
