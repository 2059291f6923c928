"""A plain PyTorch loop, with the three calls that Epochal needs: `init`, `watch` and `log`.

    python examples/loop.py            # a healthy training
    python examples/loop.py --lr 30    # a learning rate that is far too high

Then look at what was recorded. Without a name, a command takes the newest run:

    epochal doctor
    epochal serve
"""

import argparse

import torch
from torch import nn

import epochal

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.3)
parser.add_argument("--steps", type=int, default=400)
args = parser.parse_args()

# Two spirals in the plane. The model learns to which of them a point belongs.
torch.manual_seed(0)
label = torch.arange(1000) % 2
angle = 1 + 8 * torch.rand(1000).sqrt()
direction = torch.stack([torch.cos(angle + torch.pi * label), torch.sin(angle + torch.pi * label)])
points = (angle * direction).T / 5 + 0.03 * torch.randn(1000, 2)
train, test = slice(0, 800), slice(800, 1000)

model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

# Give the run a name as the second argument if you like; by default it is the date and time.
with epochal.init("examples", config=vars(args), total_steps=args.steps) as run:
    epochal.watch(model)  # records norms of weights and gradients from now on
    for step in range(args.steps):
        batch = torch.randint(0, 800, (128,))
        loss = nn.functional.cross_entropy(model(points[batch]), label[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log({"loss": loss}, step=step)  # a tensor on a GPU is not waited for

        if step % 50 == 49:
            with torch.no_grad():
                guess = model(points[test])
            right = (guess.argmax(1) == label[test]).float().mean()
            run.log(
                {
                    "eval/loss": nn.functional.cross_entropy(guess, label[test]),
                    "eval/accuracy": right,
                },
                step=step,
            )
