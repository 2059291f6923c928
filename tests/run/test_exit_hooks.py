"""How a run says that its process ended: real processes, real signals."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from epochal.store.local.by_path import load_run
from tests.conftest import StartRun
from tests.doubles.journals import of_kind, records
from tests.doubles.scripts import run_folder, run_script, start_script


def ending(folder: Path) -> dict[str, Any]:
    (finish,) = of_kind(run_folder(folder), "finish")
    assert records(run_folder(folder))[-1] == finish
    return finish


def test_a_script_that_simply_ends_has_finished(tmp_path: Path) -> None:
    code, _, err = run_script(tmp_path, "start().log({'a': 1}, step=7)")
    assert (code, err) == (0, "")
    finish = ending(tmp_path)
    assert (finish["status"], finish["last_step"]) == ("finished", 7)


@pytest.mark.parametrize("body", ["run = start()", "with start() as run:"])
def test_an_exception_is_recorded_with_its_traceback(tmp_path: Path, body: str) -> None:
    indent = "    " if body.startswith("with") else ""
    source = f"{body}\n{indent}run.log({{'a': 1}})\n{indent}raise RuntimeError('out of memory')\n"
    code, _, err = run_script(tmp_path, source)
    assert code == 1
    assert err.endswith("RuntimeError: out of memory\n")
    finish = ending(tmp_path)
    assert (finish["status"], finish["reason"]) == ("failed", "RuntimeError: out of memory")
    (event,) = of_kind(run_folder(tmp_path), "event")
    assert event["name"] == "exception"
    assert event["traceback"].startswith("Traceback (most recent call last)")


def test_an_exception_with_a_text_that_is_no_utf8_is_recorded(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(ValueError, match="odd"), run:
        raise ValueError("odd \udcff")
    assert of_kind(run.dir, "finish")[0]["reason"] == "ValueError: odd \\udcff"


@pytest.mark.parametrize("body", ["run = start()", "with start() as run:"])
def test_leaving_with_sys_exit_is_an_end_not_a_failure(tmp_path: Path, body: str) -> None:
    indent = "    " if body.startswith("with") else ""
    code, _, err = run_script(tmp_path, f"{body}\n{indent}sys.exit()\n")
    assert (code, err) == (0, "")
    assert ending(tmp_path)["status"] == "finished"


@pytest.mark.parametrize("with_block", [False, True])
def test_ctrl_c_is_an_interruption_and_names_the_checkpoint(
    tmp_path: Path, with_block: bool
) -> None:
    lines = [
        "run.log({'a': 1}, step=7)",
        "run.event('checkpoint', step=5, path=str(run.dir / 'checkpoints' / 'step-5'))",
        "print('ready', flush=True); time.sleep(600)",
    ]
    body = "with start(console=True) as run:" if with_block else "run = start(console=True)"
    source = "\n".join([body, *("    " * with_block + line for line in lines)])
    err = interrupted(tmp_path, source, signal.SIGINT)
    assert ending(tmp_path)["status"] == "interrupted"
    traceback, _, ours = err.partition("\nKeyboardInterrupt\n")
    assert "Traceback" in traceback
    assert ours.splitlines() == [
        "epochal: run 'run' was interrupted at step 7. Its newest checkpoint is"
        f" {run_folder(tmp_path)}/checkpoints/step-5.",
        f"Continue it with: epochal resume {run_folder(tmp_path)}",
    ]


def test_an_interruption_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    source = """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    run = start(console=True)
    print(flush=True)
    time.sleep(600)
    """
    err = interrupted(tmp_path, source, signal.SIGTERM)
    assert "'run' was interrupted by SIGTERM. No checkpoint is recorded" in err
    assert "epochal resume" not in err


def test_a_quiet_run_prints_nothing_when_it_is_interrupted(tmp_path: Path) -> None:
    source = "run = start(); print(flush=True); time.sleep(600)"
    assert interrupted(tmp_path, source, signal.SIGINT).endswith("\nKeyboardInterrupt\n")


def interrupted(folder: Path, source: str, number: int) -> str:
    """Send a signal to a script that has printed a line; returns what it wrote to stderr."""
    with start_script(folder, source) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == -number
    return err


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_process_as_it_would_have_and_is_recorded(
    tmp_path: Path, name: str
) -> None:
    number = getattr(signal, name)
    usual = f"signal.signal({number:d}, signal.SIG_DFL)"  # nohup has its programs ignore SIGHUP
    source = f"{usual}; run = start(); print(flush=True); time.sleep(600)"
    with start_script(tmp_path, source) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        process.communicate(timeout=120)
    assert process.returncode == -number
    assert (ending(tmp_path)["status"], ending(tmp_path)["reason"]) == ("terminated", name)


def test_the_programs_own_handler_is_still_called(tmp_path: Path) -> None:
    source = """
    def mine(number, frame):
        print("mine", number)
        sys.exit(3)

    signal.signal(signal.SIGTERM, mine)
    run = start()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)
    """
    code, out, _ = run_script(tmp_path, source)
    assert (code, out) == (3, "mine 15\n")
    (event,) = of_kind(run_folder(tmp_path), "event")
    assert (event["name"], event["reason"]) == ("signal", "SIGTERM received")


def test_a_handler_that_goes_on_leaves_the_run_open(tmp_path: Path) -> None:
    source = """
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    run = start()
    os.kill(os.getpid(), signal.SIGTERM)
    run.log({"a": 1})
    """
    assert run_script(tmp_path, source)[0] == 0
    assert len(of_kind(run_folder(tmp_path), "metrics")) == 1
    assert ending(tmp_path)["status"] == "finished"


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    source = """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    run = start()
    os.kill(os.getpid(), signal.SIGHUP)
    run.log({"a": 1})
    """
    assert run_script(tmp_path, source)[0] == 0
    assert ending(tmp_path)["status"] == "finished"


def test_hooks_are_put_back_when_the_run_ends(tmp_path: Path) -> None:
    source = """
    before = sys.excepthook, signal.getsignal(signal.SIGTERM)
    for _ in range(3):
        start().finish()
        assert (sys.excepthook, signal.getsignal(signal.SIGTERM)) == before
    """
    code, _, err = run_script(tmp_path, source)
    assert (code, err.count("Traceback")) == (0, 0)


def test_an_earlier_exception_hook_still_runs(tmp_path: Path) -> None:
    source = """
    sys.excepthook = lambda kind, error, trace: print("mine", error)
    run = start()
    raise ValueError("x")
    """
    code, out, _ = run_script(tmp_path, source)
    assert (code, out) == (1, "mine x\n")
    assert ending(tmp_path)["status"] == "failed"


@pytest.mark.parametrize(
    ("error", "status"), [("ValueError('x')", "failed"), ("KeyboardInterrupt", "interrupted")]
)
def test_an_error_is_recorded_although_a_later_hook_hides_it(
    tmp_path: Path, error: str, status: str
) -> None:
    source = f"""
    run = start()
    sys.excepthook = lambda kind, error, trace: print("mine")
    raise {error}
    """
    assert run_script(tmp_path, source)[1] == "mine\n"
    assert ending(tmp_path)["status"] == status
    (event,) = of_kind(run_folder(tmp_path), "event")
    assert event["name"] == "exception"


@pytest.mark.parametrize(
    "body",
    [
        "sys.exit(3)",
        # What pytest and IPython do with an error that they caught.
        "def fail():\n    1 / 0\ntry:\n    fail()\nexcept ZeroDivisionError as error:\n"
        "    sys.last_value = error.with_traceback(error.__traceback__.tb_next)",
        "def fail():\n    raise ValueError\nthread = threading.Thread(target=fail)\n"
        "thread.start()\nthread.join()",
    ],
    ids=["exit", "caught", "thread"],
)
def test_what_does_not_end_the_process_is_no_failure_under_a_later_hook(
    tmp_path: Path, body: str
) -> None:
    hidden = "sys.excepthook = threading.excepthook = lambda *_: None"
    run_script(tmp_path, f"import threading\nrun = start()\n{hidden}\n{body}\n")
    assert ending(tmp_path)["status"] == "finished"


def test_a_run_started_in_a_thread_ends_with_its_process(tmp_path: Path) -> None:
    source = """
    import threading
    thread = threading.Thread(target=lambda: start().log({"a": 1}))
    thread.start()
    thread.join()
    """
    assert run_script(tmp_path, source)[0] == 0
    assert ending(tmp_path)["status"] == "finished"


def test_a_child_killed_by_a_signal_does_not_end_the_run(tmp_path: Path) -> None:
    source = """
    run = start()
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"!")
        time.sleep(600)
        os._exit(0)  # never as far as the parent's lines: kill(0) would end this whole group
    os.read(ready, 1)  # Python forgets a signal that comes while it is still forking
    os.kill(child, signal.SIGTERM)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
    run.log({"a": 1})
    """
    code, _, err = run_script(tmp_path, source)
    assert (code, err) == (0, "")
    assert ending(tmp_path)["status"] == "finished"


DESTROYED = """
import epochal, sys
{imports}

class Tracker:
    def __init__(self):
        self.module, self.run = {module}, None

    def __del__(self):
        {log}
        {finish}

tracker = Tracker()
tracker.run = {init}
tracker.run.log({{"loss": 1.0}})
"""
WANDB = {
    "imports": "import epochal.wandb as wandb",
    "module": "wandb",
    "init": "wandb.init(project='tests', name='run', dir=os.environ['FOLDER'])",
    "log": "self.module.log({'last': 2.0})",
}
OWN = {
    "imports": "",
    "module": "epochal",
    "init": "epochal.init('tests', 'run', dir=os.environ['FOLDER'], console=False)",
    "log": "self.module.log({'last': 2.0})",
}


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ({**WANDB, "finish": "self.module.finish(exit_code=0)"}, ("finished", None)),
        ({**WANDB, "finish": "self.module.finish(exit_code=3)"}, ("failed", "exit code 3")),
        ({**WANDB, "finish": "self.run.finish(exit_code=3)"}, ("failed", "exit code 3")),
        ({**OWN, "finish": "self.module.finish()"}, ("finished", None)),
        ({**OWN, "finish": "self.run.finish('failed')"}, ("failed", None)),
        ({**OWN, "finish": ""}, ("finished", "the process ended")),
    ],
)
def test_an_object_that_is_destroyed_at_exit_may_log_and_finish(
    tmp_path: Path, calls: dict[str, str], expected: tuple[str, str | None]
) -> None:
    code, _, err = run_script(tmp_path, DESTROYED.format(**calls))
    assert (code, re.findall(r"Traceback|Error.*|Exception.*", err)) == (0, [])
    (folder,) = tmp_path.glob("**/tests/run")
    assert [r["m"] for r in of_kind(folder, "metrics")] == [{"loss": 1.0}, {"last": 2.0}]
    status = load_run(folder).status
    assert (status.state, status.reason) == expected
