"""Trainings with one planted fault each, and the question that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn

from tests.torch.preflight.trainings import (
    TOKENS,
    Language,
    Training,
    class_loss,
    classes,
    classifier,
    tokens,
)

Fault = Callable[[], Training]


def _net(*, outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, outputs))


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(F.relu(self.body(x)).detach())
        return scores


def detached() -> Training:
    return Training(Detached(), classes(), class_loss)


class Rounded(nn.Module):
    """Rounds without a gradient of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = (4 * layer(x)).round() / 4 if layer is not self.layers[3] else layer(x)
        return x


def rounded() -> Training:
    return Training(Rounded(), classes(), class_loss)


def head_in_no_optimizer() -> Training:
    model = _net()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    return Training(model, classes(), class_loss, {"optimizer": optimizer})


def replaced_head() -> Training:
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(16, 3)
    return Training(model, classes(), class_loss, {"optimizer": optimizer})


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(torch.zeros_like(x))
        return scores


def constant() -> Training:
    return Training(Constant(), classes(), class_loss)


class Centred(nn.Module):
    """Takes the mean of the wrong dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x - x.mean(0))
        return scores


def centred() -> Training:
    return Training(Centred(), classes(), class_loss)


class Mixed(nn.Module):
    """Reads sequences with attention over the samples: ``batch_first`` is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(6, 2), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.attention(x, x, x)[0].mean(1))
        return scores


def attention_over_samples() -> Training:
    return Training(Mixed(), (torch.randn(8, 5, 6), torch.arange(8) % 3), class_loss)


def batch_statistics_in_eval() -> Training:
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3)
    )
    return Training(model, classes(), class_loss)


class First(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x[:1].expand_as(x))
        return scores


def first_sample_only() -> Training:
    return Training(First(), classes(), class_loss)


def no_mask() -> Training:
    return Training(Language(is_causal=False), tokens())


def no_mask_and_own_loss() -> Training:
    def loss(output: Tensor, batch: Any) -> Tensor:
        return -output.log_softmax(-1).gather(-1, batch[1][..., None]).mean()

    return Training(Language(is_causal=False, returns_loss=False), tokens(), loss)


def no_mask_said() -> Training:
    given, _ = tokens()
    batch = (given, torch.randint(TOKENS, given.shape))
    return Training(Language(is_causal=False), batch, None, {"causal": True})


def labels_in_place() -> Training:
    given, _ = tokens()
    return Training(Language(), (given, given.clone()))


def shifted_twice() -> Training:
    text = torch.randint(1, TOKENS, (4, 14))
    return Training(Language(), (text[:, :-2].clone(), text[:, 2:].clone()))


def softmax_twice() -> Training:
    return Training(nn.Sequential(_net(), nn.Softmax(1)), classes(), class_loss)


def sigmoid_twice() -> Training:
    x = torch.randn(16, 6)
    model = nn.Sequential(_net(outputs=1), nn.Sigmoid())
    return Training(model, (x, (x[:, :1] > 0).float()), nn.BCEWithLogitsLoss())


def no_log_softmax() -> Training:
    return Training(_net(), classes(), nn.NLLLoss())


def summed() -> Training:
    return Training(_net(), classes(), nn.CrossEntropyLoss(reduction="sum"))


def broadcast() -> Training:
    x = torch.randn(16, 6)
    return Training(_net(outputs=1), (x, x.sum(1)), nn.MSELoss())


def all_ignored() -> Training:
    x, labels = classes()
    return Training(_net(), (x, torch.full_like(labels, -100)), nn.CrossEntropyLoss())


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Language()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Any:
        return self.inner(input_ids, labels)


def padding_counts() -> Training:
    given, labels = tokens()
    given[:, 9:], labels[:, 8:] = 0, 0
    mask = (given != 0).long()
    batch = {"input_ids": given, "attention_mask": mask, "labels": labels}
    return Training(Padded(), batch)


def huge_inputs() -> Training:
    x, labels = classes()
    return Training(_net(), (1000 * x, labels), class_loss)


def huge_targets() -> Training:
    x = torch.randn(16, 6)
    return Training(_net(outputs=1), (x, 1000 + x[:, :1]), nn.MSELoss())


class Unseeded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        generator = torch.Generator()
        generator.seed()
        scores: Tensor = self.layer(x + torch.randn(x.shape, generator=generator))
        return scores


def unseeded() -> Training:
    return Training(Unseeded(), classes(), class_loss)


def high_rate() -> Training:
    training = classifier()
    training.options["optimizer"] = torch.optim.SGD(training.model.parameters(), lr=300.0)
    return training


def constant_loss() -> Training:
    def loss(output: Tensor, batch: Any) -> Tensor:
        return F.cross_entropy(output.detach(), batch[1]) + 0 * output.sum()

    return Training(_net(), classes(), loss)


class Infinite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x)
        return scores + (scores - scores).abs().sqrt()


def infinite_gradient() -> Training:
    return Training(Infinite(), classes(), class_loss)


def rounded_away() -> Training:
    model = _net().bfloat16()
    x, labels = classes()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    return Training(model, (x.bfloat16(), labels), class_loss, {"optimizer": optimizer})


class Repeating:
    """Gives the same batch for ever."""

    def __iter__(self) -> Iterator[Any]:
        return iter([classes()] * 2 + [(torch.ones(8, 6), torch.ones(8))] * 3)


def repeating_loader() -> Training:
    training = classifier()
    training.options["loader"] = Repeating()
    return training


FAULTS: tuple[tuple[Fault, str], ...] = (
    (detached, "gradients"), (rounded, "gradients"), (head_in_no_optimizer, "optimizer"),
    (replaced_head, "optimizer"), (constant, "inputs"), (centred, "samples"),
    (attention_over_samples, "samples"), (batch_statistics_in_eval, "samples"),
    (first_sample_only, "samples"), (no_mask, "positions"),
    (no_mask_and_own_loss, "positions"), (no_mask_said, "positions"),
    (labels_in_place, "labels"), (shifted_twice, "labels"), (softmax_twice, "loss"),
    (sigmoid_twice, "loss"), (no_log_softmax, "loss"), (summed, "loss"), (broadcast, "loss"),
    (all_ignored, "loss"), (padding_counts, "loss"), (huge_inputs, "start"),
    (huge_targets, "start"), (unseeded, "repetition"), (high_rate, "overfit"),
    (constant_loss, "overfit"), (infinite_gradient, "precision"), (rounded_away, "precision"),
    (repeating_loader, "loader"),
)  # fmt: skip
