"""What a person sees, on a pseudo-terminal and through a pipe."""

import os
import re
import select
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

import pytest

pty = pytest.importorskip("pty", reason="pseudo-terminals are a Unix thing")

SET_UP = """
import sys, time, logging, os, threading
logging.basicConfig(format="%(message)s")
from epochal.run.console.printer import Console
console = Console()
shown = console.start_progress(name="spiral", total=10)
def draw(step):
    console.progress(step, now=float(step), loss=0.5, rate=2.0, eta_s=10 - step)
draw(3)
"""


class Output(NamedTuple):
    terminal: str
    stdout: str


def run(
    code: str,
    *,
    env: Mapping[str, str] | None = None,
    columns: int = 80,
    keys: str = "",
    pipe_stdout: bool = False,
) -> Output:
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", SET_UP + code],
        stdin=follower,
        stdout=subprocess.PIPE if pipe_stdout else follower,
        stderr=follower,
        env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", **(env or {})},
        text=True,
    )
    os.write(leader, keys.encode())
    terminal = read_all(leader, follower, process)
    return Output(terminal, process.communicate()[0] or "")


def run_piped(code: str) -> str:
    command = [sys.executable, "-c", SET_UP + code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def read_all(leader: int, follower: int, process: subprocess.Popen[str]) -> str:
    """What the process wrote; our own end stays open, for what a closed one held may be lost."""
    output = b""
    while process.poll() is None:
        if select.select([leader], [], [], 0.05)[0]:
            output += os.read(leader, 65536)
    os.write(follower, b"\0")
    while not output.endswith(b"\0"):
        output += os.read(leader, 65536)
    os.close(follower)
    os.close(leader)
    return output[:-1].decode()


def screen(output: str) -> list[str]:
    rows, row, column = [], "", 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.", output, re.DOTALL):
        if token == "\n":
            rows.append(row.rstrip())
            row, column = "", 0
        elif token == "\r":
            column = 0
        elif token == "\x1b[2K":
            row = ""
        elif not token.startswith("\x1b"):
            row = row[:column].ljust(column) + token + row[column + 1 :]
            column += 1
    return [*rows, row.rstrip()]


BAR = "spiral ━━━━━━━━───────────────────  3/10   30%  loss=0.5000  2.0 step/s  ETA 7s"


def test_the_bar_is_drawn() -> None:
    assert screen(run("os._exit(0)").terminal) == [BAR]


def test_the_bar_fits_in_a_narrow_terminal() -> None:
    [bar] = screen(run("os._exit(0)", columns=40).terminal)
    assert "30%" in bar
    assert len(bar) < 40


def test_other_output_appears_whole_above_the_bar() -> None:
    code = """
print("printed", "in pieces")
print("an error", file=sys.stderr)
logging.warning("logged through a stream taken before")
console.step(":: step")
print("x" * 100)
os._exit(0)
"""
    above = ["printed in pieces", "an error", "logged through a stream taken before", ":: step"]
    assert screen(run(code).terminal) == [*above, "x" * 100, BAR]


def test_closing_leaves_no_trace() -> None:
    code = """
print("printed")
console.closing("closing")
print("afterwards", "write" in vars(sys.stderr), "flush" in vars(sys.stdout))
"""
    lines = screen(run(code).terminal)
    assert lines == ["printed", "closing", "afterwards False False", ""]


def test_the_bar_goes_when_the_program_ends() -> None:
    assert screen(run("print('the end')").terminal) == ["the end", ""]


@pytest.mark.parametrize("error", ["RuntimeError", "KeyboardInterrupt"])
def test_a_traceback_is_whole(error: str) -> None:
    lines = screen(run(f"raise {error}").terminal)
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2:] == [error, ""]


def test_the_bar_stays_away_from_a_prompt() -> None:
    # The terminal echoes the answer at once, before the program has asked.
    lines = screen(run("print(input('name> ')); os._exit(0)", keys="Bob\n").terminal)
    assert lines == ["Bob", "name> Bob", BAR]


def test_the_bar_waits_for_an_unfinished_line() -> None:
    code = """
print("loading", end="", flush=True)
draw(4)
print(" done")
os._exit(0)
"""
    lines = screen(run(code).terminal)
    assert lines[0] == "loading done"
    assert "4/10" in lines[1]


def test_a_training_line_does_not_continue_an_unfinished_one() -> None:
    code = "print('loading', end='', flush=True); console.step(':: step'); os._exit(0)"
    assert screen(run(code).terminal) == ["loading", ":: step", BAR]


def test_the_bar_returns_after_another_bar() -> None:
    code = r"""
for i in range(5):
    print(f"\rother {i}", end="", file=sys.stderr)
    draw(4 + i)
print("\r" + " " * 7 + "\r", end="", file=sys.stderr)
os._exit(0)
"""
    output = run(code).terminal
    assert "other 4" in output
    [line] = screen(output)
    assert "8/10" in line


def test_a_forked_child_prints_and_draws_nothing() -> None:
    code = """
if os.fork() == 0:
    draw(9)
    print("from the child", flush=True)
    os._exit(0)
os.wait()
print("from the parent")
os._exit(0)
"""
    assert screen(run(code).terminal) == ["from the child", "from the parent", BAR]


def test_threads_do_not_tear_each_others_lines() -> None:
    code = """
def chatter(name):
    for i in range(50):
        sys.stdout.write(f"{name} {i}\\n")
threads = [threading.Thread(target=chatter, args=(n,)) for n in "abcd"]
for thread in threads: thread.start()
for step in range(4, 10): draw(step)
for thread in threads: thread.join()
console.close()
"""
    lines = screen(run(code).terminal)
    assert sorted(lines) == sorted(["", *(f"{n} {i}" for n in "abcd" for i in range(50))])


def test_drawings_are_four_a_second_at_most() -> None:
    code = """
for i in range(4001):
    console.progress(5, now=4 + i / 1000)
os._exit(0)
"""
    assert run(code).terminal.count("5/10") == 17


def test_a_wrapper_put_on_top_survives_the_bar() -> None:
    code = """
ours = sys.stdout.write
sys.stdout.write = lambda text: ours(text.upper())
console.close()
print("wrapped")
os._exit(0)
"""
    assert screen(run(code).terminal) == ["WRAPPED", ""]


def test_piped_stdout_is_left_alone() -> None:
    output = run("print('data'); os.sys.stdout.flush(); os._exit(0)", pipe_stdout=True)
    assert output.stdout == "data\n"
    assert screen(output.terminal) == [BAR]


TALK = """
console.eval(">> eval")
console.step(":: step")
print(shown)
console.closing("closing")
"""


def test_evaluations_are_bold_on_a_terminal() -> None:
    assert "\x1b[1m>> eval\x1b[22m" in run(TALK).terminal


@pytest.mark.parametrize(("grade", "colour"), [("good", 32), ("warn", 33), ("bad", 31)])
def test_the_gap_of_an_evaluation_has_the_colour_of_its_grade(grade: str, colour: int) -> None:
    code = f'console.eval("loss 2 | gap +1 | ms", graded=("gap +1", "{grade}"))'
    assert f"| \x1b[{colour}mgap +1\x1b[39m |" in run(code).terminal
    assert "| gap +1 |" in run(code, env={"NO_COLOR": "1"}).terminal
    assert "| gap +1 |" in run_piped(code)


def test_piped_output_has_no_control_codes_and_no_bar() -> None:
    assert run_piped(TALK) == "False\n>> eval\n:: step\nclosing\n"


def test_a_dumb_terminal_gets_no_control_codes() -> None:
    lines = run(TALK, env={"TERM": "dumb"}).terminal.split("\r\n")
    assert lines == [">> eval", ":: step", "False", "closing", ""]


def test_no_color_means_no_colour() -> None:
    assert "\x1b[36m" in run("os._exit(0)").terminal
    plain = run("os._exit(0)", env={"NO_COLOR": "1"}).terminal
    assert re.sub(r"\x1b\[2K|\r", "", plain) == BAR


def test_nothing_heavy_is_loaded_without_a_terminal() -> None:
    loaded = run_piped("print([m for m in ('rich', 'numpy', 'psutil') if m in sys.modules])")
    assert loaded == "[]\n"


SECOND = """
other = Console()
other.start_progress(name="critic", total=10)
def draw_both(step):
    draw(step)
    other.progress(step, now=float(step), loss=0.5, rate=2.0, eta_s=10 - step)
draw_both(4)
"""


def test_two_bars_stand_side_by_side_and_text_above_them() -> None:
    code = SECOND + "print('above'); console.line('line'); draw_both(5); os._exit(0)"
    *above, bars = screen(run(code).terminal)
    assert above == ["above", "line"]
    assert re.fullmatch(r"spiral .* 50%.*  critic .* 50%.*", bars)
    assert len(bars) < 80


@pytest.mark.parametrize("first", ["console", "other"])
def test_two_bars_go_in_any_order_and_leave_nothing(first: str) -> None:
    last = {"console": "other", "other": "console"}[first]
    code = f"{first}.close(); print('a'); draw_both(6); print('b'); {last}.close(); print('c')"
    output = run(SECOND + code).terminal
    assert screen(output) == ["a", "b", "c", ""]


def test_a_narrow_terminal_shows_the_bar_opened_last() -> None:
    (bar,) = screen(run(SECOND + "draw_both(5); os._exit(0)", columns=50).terminal)
    assert bar.startswith("critic")
    assert len(bar) < 50


def test_a_bar_that_has_gone_leaves_its_room_to_the_other() -> None:
    (bar,) = screen(run(SECOND + "other.close(); draw_both(5); os._exit(0)").terminal)
    assert bar.startswith("spiral")
    assert "loss=0.5000" in bar
