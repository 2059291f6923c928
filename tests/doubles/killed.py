"""A training that is killed: logs without end and acknowledges every call that has returned.

    python killed.py FOLDER COUNTERS STEPS_PER_S THREADS PART_BYTES

COUNTERS is a file of one 8-byte number per thread, shared through memory: the number of calls that
have returned survives the kill just as the records must. STEPS_PER_S 0 means without a pause.
"""

from __future__ import annotations

import mmap
import sys
import threading
import time

from epochal.run.run import Run, recorder_of
from epochal.run.start import init


def log_for_ever(run: Run, counters: memoryview[int], thread: int, pause_s: float) -> None:
    step = 0
    while True:
        run.log({f"thread{thread}": step, "loss": 1 / (step + 1)}, step=step)
        step += 1
        counters[thread] = step  # one store of 8 bytes: a kill cannot leave half of it
        if pause_s:
            time.sleep(pause_s)


def main() -> None:
    folder, path, rate, num_threads, part_bytes = sys.argv[1:]
    run = init("crash", "killed", dir=folder, console=False)
    writer = recorder_of(run)._writer
    assert writer is not None
    writer._part_bytes = int(part_bytes)
    with open(path, "r+b") as file:
        counters = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
    pause_s = 1 / float(rate) if float(rate) else 0.0
    for thread in range(1, int(num_threads)):
        arguments = (run, counters, thread, pause_s)
        threading.Thread(target=log_for_ever, args=arguments, daemon=True).start()
    log_for_ever(run, counters, 0, pause_s)


if __name__ == "__main__":
    main()
