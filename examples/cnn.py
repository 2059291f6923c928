"""Train a small CNN and log what it sees: pictures, a table of mistakes, a confusion matrix.

    python examples/cnn.py

The pictures are shapes that the script draws, so nothing is downloaded. Then open the page. Its
section Samples has a slider over the epochs:

    epochal serve
"""

import os

import torch
from torch import nn

import epochal

EPOCHS = int(os.environ.get("EPOCHS", "8"))
SHAPES = ["square", "disc", "cross"]


def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy pictures of 24 x 24 pixels, each with one shape, and the number of its shape."""
    shape = torch.randint(0, 3, (count,))
    place = 8 + 8 * torch.rand(count, 2, 1, 1)
    grid = torch.stack(torch.meshgrid(torch.arange(24.0), torch.arange(24.0), indexing="ij"))
    down, across = (grid - place).abs().unbind(1)
    square = torch.maximum(down, across) < 4
    disc = down**2 + across**2 < 22
    cross = (torch.minimum(down, across) < 1.5) & square
    picture = torch.stack([square, disc, cross])[shape, torch.arange(count)].float()
    return (0.6 * picture + 0.4 * torch.rand(count, 24, 24))[:, None], shape


torch.manual_seed(0)
images, labels = draw(2000)
test_images, test_labels = draw(300)
model = nn.Sequential(
    *(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Flatten(), nn.Linear(256, 3)),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

with epochal.init("examples", "cnn", total_steps=40 * EPOCHS) as run:
    epochal.watch(model)
    step = 0
    for _epoch in range(EPOCHS):
        for batch in torch.randperm(2000).split(50):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log({"loss": loss}, step=step)
            step += 1

        with torch.no_grad():
            guess = model(test_images).argmax(1)
        counts = torch.bincount(3 * test_labels + guess, minlength=9).view(3, 3).tolist()
        pictures = [
            epochal.Image(test_images[i, 0], caption=f"{SHAPES[guess[i]]}?") for i in range(8)
        ]
        mistakes = [  # a list of dicts is a table
            {
                "picture": epochal.Image(test_images[i, 0]),
                "truth": SHAPES[test_labels[i]],
                "guess": SHAPES[guess[i]],
            }
            for i in (guess != test_labels).nonzero().flatten().tolist()[:20]
        ]
        confusion = epochal.Table(
            [
                {"truth": SHAPES[i], "guess": SHAPES[j], "count": counts[i][j]}
                for i in range(3)
                for j in range(3)
            ],
            chart={"kind": "matrix", "x": "guess", "y": "truth", "value": "count"},
        )
        run.log({"eval/accuracy": (guess == test_labels).float().mean()}, step=step)
        run.log({"pictures": pictures, "mistakes": mistakes, "confusion": confusion}, step=step)
