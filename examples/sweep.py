"""Compare settings over several seeds. A sweep is a loop over runs with different configs.

    python examples/sweep.py

Then ask which setting is best, and whether the difference is larger than the noise of the seeds:

    epochal ls sweep --columns score,config.lr,config.momentum --sort score
    epochal compare sweep --group-by lr,momentum -m eval/loss
    epochal serve    # choose the project and open Compare
"""

import itertools
import os

import torch
from torch import nn

import epochal

STEPS = int(os.environ.get("STEPS", "150"))
SEEDS = int(os.environ.get("SEEDS", "3"))

x = torch.randn(512, 10, generator=torch.Generator().manual_seed(0))
y = (x[:, :1] * x[:, 1:2] + x[:, 2:3].sin()) / 2

for lr, momentum, seed in itertools.product((0.001, 0.01, 0.1), (0.0, 0.9), range(SEEDS)):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    with epochal.init(
        "sweep",
        f"lr{lr}-m{momentum}-s{seed}",
        config={"lr": lr, "momentum": momentum, "seed": seed},
        console=False,  # many short runs need no lines of their own
    ) as run:
        for step in range(STEPS):
            batch = torch.randint(0, 400, (64,))
            loss = nn.functional.mse_loss(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log({"loss": loss}, step=step)
            if step % 10 == 9:
                with torch.no_grad():
                    score = nn.functional.mse_loss(model(x[400:]), y[400:])
                run.log({"eval/loss": score}, step=step)
        run.summary["score"] = float(score)  # the one number by which runs are sorted
    print(f"lr {lr:<5}  momentum {momentum}  seed {seed}  score {score:.4f}")
