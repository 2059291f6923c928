"""Start a hub, send a run to it, read it back, and stop the hub.

    python examples/hub.py

A hub receives runs of machines that share no disk. This one listens on 127.0.0.1 only and keeps
its runs in `hub_runs`. To look at them afterwards:

    epochal ls --dir hub_runs
    epochal hub serve hub_runs    # the page of the hub; `hub token` makes a token for you
"""

import os
import signal
import subprocess
import sys

import epochal

EPOCHAL = [sys.executable, "-m", "epochal"]  # in a shell, simply `epochal`
FOLDER = "hub_runs"
STEPS = int(os.environ.get("STEPS", "100"))

os.makedirs(FOLDER, exist_ok=True)

# Every machine or person gets a token. It is printed once, and the hub keeps only its digest.
command = [*EPOCHAL, "hub", "token", "add", "workstation", "--hub", FOLDER]
token = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

# On a server: `epochal hub serve /data/runs --host 0.0.0.0 --port 6060`.
command = [*EPOCHAL, "hub", "serve", FOLDER, "--port", "0"]
hub = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    address = next(line.strip() for line in hub.stdout if line.startswith("http"))

    # Where trainings run, these two variables are all that a script needs.
    os.environ |= {"EPOCHAL_HUB": address, "EPOCHAL_HUB_TOKEN": token}
    with epochal.init("examples", "sent", total_steps=STEPS) as run:
        for step in range(STEPS):
            run.log({"loss": 1 / (1 + step)}, step=step)

    # The training does not wait for the hub, so wait here until the last record has arrived.
    subprocess.run([*EPOCHAL, "wait", "examples/sent", "--hub", "--timeout", "60s"], check=True)
    subprocess.run([*EPOCHAL, "ls", "--hub"], check=True)

    with epochal.open(address) as runs:  # the same in Python
        series = runs.run("examples/sent").series("loss")
        print(
            f"The hub has {len(series.values)} values of loss, the last is {series.values[-1]:.4f}."
        )
finally:
    hub.send_signal(signal.SIGINT)  # as Ctrl-C
    hub.wait()
