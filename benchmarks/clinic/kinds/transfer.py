"""Learning on top of something learned: contrastive views, fine-tuning, low-rank adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.language import Encoder, Text, text
from benchmarks.clinic.kinds.tables import parted, teacher_classes
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task


class Contrastive(Task):
    """Two noisy views of a sample belong together, all others do not."""

    def __init__(self) -> None:
        causes = torch.randn(4000, 12)
        seen = 1 + 3 * torch.tanh(causes @ torch.randn(12, 40))
        self.train, self.held_out = parted(Split(seen, torch.zeros(4000)), 512)
        self.model = nn.Sequential(
            nn.Linear(40, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 24)
        )

    def outputs(self, inputs: Tensor) -> Any:
        views = [inputs + 1.5 * torch.randn_like(inputs) for _ in range(2)]
        return [functional.normalize(self.model(view), dim=1) for view in views]

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        first, second = outputs
        likeness = first @ second.T / 0.2
        own = torch.arange(len(likeness), device=likeness.device)
        return functional.cross_entropy(likeness, own)

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            parts = [split.inputs[at : at + 128] for at in range(0, len(split), 128)]
            losses = [float(self.loss(self.outputs(part), part)) for part in parts]
        return {"loss": sum(losses) / len(losses)}


class FineTuned(Classification):
    """A body that learned other classes; its first layer is frozen on purpose."""

    num_classes = 5

    def __init__(self) -> None:
        old = teacher_classes(3000, 32, 12, noise=0.0)
        inputs = torch.randn(3000, 32)
        body = nn.Sequential(
            nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Dropout(0.1)
        )
        head = nn.Linear(64, 12)
        learned = nn.Sequential(body, head)
        optimizer = torch.optim.Adam(learned.parameters(), lr=2e-3)
        for _ in range(150):
            some = torch.randint(3000, (64,))
            loss = functional.cross_entropy(learned(old.inputs[some]), old.targets[some])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            learned.eval()
            shares = learned(inputs).softmax(1) @ torch.randn(12, 5)
        labels = (shares + 0.1 * torch.randn(3000, 5)).argmax(1)
        self.train, self.held_out = parted(Split(inputs, labels), 800)
        body[0].requires_grad_(False)
        self.model = nn.Sequential(body, nn.Linear(64, 5))


class Adapter(nn.Module):
    """A frozen linear layer, and a thin one beside it that learns."""

    def __init__(self, inner: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x) + 2 * self.up(self.down(x))
        return out


class Lora(Text):
    """A small transformer that learned another language, with adapters beside its layers."""

    def __init__(self) -> None:
        super().__init__(count=4200)
        # The fused evaluation of torch's layer reads the weights that adapters stand beside.
        torch.backends.mha.set_fastpath_enabled(False)
        old = text(600)
        model = Encoder(layers=2, dropout=0.0)
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        for _ in range(120):
            inputs, targets = old.take(torch.randint(600, (16,)))
            loss = self.loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        model.requires_grad_(False)
        for block in model.blocks:
            for name in ("linear1", "linear2"):
                setattr(block, name, Adapter(getattr(block, name), rank=8))
        model.letters.requires_grad_(True)
        model.head.requires_grad_(True)
        self.model = model


KINDS = (
    Kind(
        "contrastive",
        "unseen",
        Contrastive,
        (OptimizerChoice("adam", 1e-3), OptimizerChoice("momentum", 0.03)),
        batch_size=128,
        typed=False,
    ),
    Kind(
        "finetune",
        "unseen",
        FineTuned,
        (OptimizerChoice("adamw", 5e-4), OptimizerChoice("momentum", 0.01)),
        steps=800,
        warmup=40,
        decay="cosine",
        config={"num_classes": 5},
    ),
    Kind(
        "lora",
        "tuning",
        Lora,
        (OptimizerChoice("adamw", 5e-3), OptimizerChoice("momentum", 0.1)),
        batch_size=16,
        steps=800,
        warmup=40,
        clip=1.0,
    ),
)
