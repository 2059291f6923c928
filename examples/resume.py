"""Continue after a crash. The first start kills itself with SIGKILL, the second one goes on.

    python examples/resume.py    # dies at step 130
    python examples/resume.py    # continues after the checkpoint of step 119

or both in one go: `epochal run --restarts 1 --restart-wait 1s -- python examples/resume.py`

Nothing that was logged is lost, and the two attempts are one curve:

    epochal show resume
    epochal manage checkpoints resume
    epochal serve
"""

import os
import signal

import torch
from torch import nn

import epochal

STEPS = int(os.environ.get("STEPS", "200"))

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
state = epochal.TrainingState(model, optimizer=optimizer)  # and all random generators

with (
    # "allow" continues the run of this name if there is one.
    epochal.init("examples", "resume", resume="allow", total_steps=STEPS) as run,
    epochal.Checkpoints(run, state, every=STEPS // 5) as checkpoints,
):
    restored = checkpoints.restore()  # None the first time
    for step in range(restored.next_step if restored else 0, STEPS):
        x = torch.randn(64, 8)
        loss = nn.functional.mse_loss(model(x), x.prod(dim=1, keepdim=True).tanh())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log({"loss": loss}, step=step)
        checkpoints.step(step)  # saves after every `every` steps, and when you press Ctrl-C

        if restored is None and step == 13 * STEPS // 20:
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is full
