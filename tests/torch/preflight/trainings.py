"""Small trainings of every kind, which `preflight` must not blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

TOKENS = 17


@dataclass
class Training:
    model: nn.Module
    batch: Any
    loss_fn: Callable[..., Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def classes(n: int = 8, *, inputs: int = 6) -> tuple[Tensor, Tensor]:
    return torch.randn(n, inputs), torch.arange(n) % 3


def tokens(n: int = 4, length: int = 12) -> tuple[Tensor, Tensor]:
    text = torch.randint(1, TOKENS, (n, length + 1))
    return text[:, :-1].clone(), text[:, 1:].clone()


def class_loss(output: Tensor, batch: Any) -> Tensor:
    return F.cross_entropy(output, batch[1])


# -- sequences ------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width: int, *, is_causal: bool) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.is_causal = nn.Linear(width, width), is_causal
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norm(x)).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        x = x + self.out(mixed)
        moved: Tensor = self.down(F.gelu(self.up(x)))
        return x + moved


class Language(nn.Module):
    """A language model with tied weights, which returns logits, or only its loss."""

    def __init__(self, *, is_causal: bool = True, returns_loss: bool = True) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, 16), nn.Embedding(32, 16)
        self.blocks = nn.Sequential(*(Block(16, is_causal=is_causal) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, TOKENS, bias=False)
        self.head.weight = self.tokens.weight
        self.returns_loss = returns_loss

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        places = torch.arange(tokens.shape[1])
        x = self.blocks(self.tokens(tokens) + self.places(places))
        logits: Tensor = self.head(self.norm(x))
        if targets is None or not self.returns_loss:
            return logits
        return F.cross_entropy(logits.view(-1, TOKENS), targets.reshape(-1))


def language() -> Training:
    return Training(Language(), tokens())


def logits_of_language() -> Training:
    def loss(output: Tensor, batch: Any) -> Tensor:
        return F.cross_entropy(output.transpose(1, 2), batch[1])

    return Training(Language(), tokens(), loss)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(TOKENS, 8), nn.Linear(8, TOKENS)
        self.cells = nn.LSTM(8, 8, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.cells(self.tokens(tokens))[0])
        return logits


def recurrent() -> Training:
    return Training(
        Recurrent(),
        tokens(),
        lambda out, batch: F.cross_entropy(out.flatten(0, 1), batch[1].flatten()),
    )


def reversal() -> Training:
    """Turns a sequence around, for which every position sees all of them."""
    given, _ = tokens()
    batch = (given, given.flip(1))
    return Training(Language(is_causal=False), batch)


# -- vectors and pictures -------------------------------------------------------------------------


def classifier() -> Training:
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    return Training(model, classes(), class_loss)


def regression() -> Training:
    x = torch.randn(16, 5)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0))
    return Training(model, (x, 0.1 * x.sum(1)), nn.MSELoss())


def binary() -> Training:
    x = torch.randn(16, 5)
    return Training(nn.Linear(5, 1), (x, (x[:, :1] > 0).float()), nn.BCEWithLogitsLoss())


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.2), nn.Conv2d(6, 6, 3)
        )
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.norm(self.body(x).mean((2, 3))))
        return scores


def batchnorm() -> Training:
    return Training(
        Pictures(), (torch.randn(8, 1, 8, 8), torch.arange(8) % 3), nn.CrossEntropyLoss()
    )


def quantise(x: Tensor) -> Tensor:
    """Four bits, with the gradient of a value that is not rounded."""
    scale = x.detach().abs().max() / 7 + 1e-8
    return x + ((x / scale).round() * scale - x).detach()


class Quantised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 6, 3)
        self.head = nn.Linear(6, 3)
        self.register_buffer("range", torch.zeros(()))
        self.range: Tensor

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.range.mul_(0.9).add_(0.1 * x.detach().abs().max())
        x = F.relu(F.conv2d(quantise(x), quantise(self.first.weight), self.first.bias))
        x = F.relu(F.conv2d(quantise(x), quantise(self.second.weight), self.second.bias))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


def quantised() -> Training:
    return Training(
        Quantised(), (torch.randn(8, 1, 8, 8), torch.arange(8) % 3), nn.CrossEntropyLoss()
    )


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        clipped: Tensor = gradient * (x.abs() < 2)
        return clipped


class Signs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 32), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        sign: Any = Sign.apply
        scores: Tensor = self.second(sign(self.first(x)))
        return scores


def custom_function() -> Training:
    return Training(Signs(), classes(), class_loss)


class Adapted(nn.Module):
    """A frozen layer with an adapter of low rank, which begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 16).requires_grad_(False), nn.Linear(16, 3)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 16, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(F.relu(self.body(x) + self.up(self.down(x))))
        return scores


def adapters() -> Training:
    return Training(Adapted(), classes(), class_loss)


def zero_head() -> Training:
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    nn.init.zeros_(model[2].weight)  # type: ignore[arg-type]
    nn.init.zeros_(model[2].bias)  # type: ignore[arg-type]
    return Training(model, classes(), class_loss)


class Autoencoder(nn.Module):
    """Of variations: the sum of its losses, as it is usually written."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.back = nn.Linear(6, 4), nn.Linear(2, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_var = self.code(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (log_var / 2).exp()
        return self.back(code), mean, log_var


def autoencoder() -> Training:
    def loss(output: Any, x: Tensor) -> Tensor:
        back, mean, log_var = output
        divergence = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum()
        total: Tensor = F.mse_loss(back, x, reduction="sum") + divergence
        return total

    return Training(Autoencoder(), torch.randn(8, 6), loss)


class Diffusion(nn.Module):
    """Learns the noise that it adds, and draws it inside of its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(7, 32), nn.SiLU(), nn.Linear(32, 6))
        nn.init.zeros_(self.net[2].weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        time, noise = torch.rand(len(x), 1), torch.randn_like(x)
        mixed = (1 - time) * x + time * noise
        return F.mse_loss(self.net(torch.cat([mixed, time], 1)), noise)


def diffusion() -> Training:
    return Training(Diffusion(), torch.randn(16, 6))


# -- samples that belong together -----------------------------------------------------------------


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        scores: Tensor = self.second(adjacency @ F.relu(self.first(adjacency @ x)))
        return scores


def _adjacency(n: int) -> Tensor:
    links = (torch.rand(n, n) < 0.4).float() + torch.eye(n)
    return links / links.sum(1, keepdim=True)


def graph() -> Training:
    x, labels = classes(10)
    batch = (x, _adjacency(10), labels)
    return Training(Graph(), batch, lambda output, batch: F.cross_entropy(output, batch[2]))


def graph_in_closure() -> Training:
    adjacency = _adjacency(8)
    forward = {"forward": lambda model, batch: model(batch[0], adjacency)}
    return Training(Graph(), classes(), class_loss, forward)


class Messages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        moved: Tensor = self.layer(x)
        return torch.zeros_like(moved).index_add(0, target, moved[source]) + moved


def messages() -> Training:
    x, labels = classes(10)
    batch = {"x": x, "edge_index": torch.randint(10, (2, 30)), "y": labels}
    return Training(Messages(), batch, lambda output, batch: F.cross_entropy(output, batch["y"]))


class Mixture(nn.Module):
    """Sends each sample to one expert; some experts get none."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.head = nn.Linear(6, 12), nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 8) for _ in range(12))

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(1).max(1)
        mixed = torch.zeros(len(x), 8)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().reshape(-1)
            if len(rows):
                mixed = mixed.index_add(0, rows, weights[rows, None] * expert(x[rows]))
        scores: Tensor = self.head(mixed)
        return scores


def experts() -> Training:
    return Training(Mixture(), classes(), class_loss)


class Pairs(nn.Module):
    def __init__(self, *, compares: bool) -> None:
        super().__init__()
        self.text, self.picture = nn.Linear(6, 8), nn.Linear(5, 8)
        self.compares = compares

    def forward(self, text: Tensor, picture: Tensor) -> Any:
        first, second = F.normalize(self.text(text)), F.normalize(self.picture(picture))
        return first @ second.T / 0.1 if self.compares else (first, second)


def contrast() -> Training:
    def loss(output: Any, batch: Any) -> Tensor:
        logits = output[0] @ output[1].T / 0.1
        return F.cross_entropy(logits, torch.arange(len(logits)))

    batch = {"text": torch.randn(8, 6), "picture": torch.randn(8, 5)}
    return Training(Pairs(compares=False), batch, loss)


def comparison() -> Training:
    def loss(logits: Tensor, batch: Any) -> Tensor:
        return F.cross_entropy(logits, torch.arange(len(logits)))

    batch = {"text": torch.randn(8, 6), "picture": torch.randn(8, 5)}
    return Training(Pairs(compares=True), batch, loss)


# -- programs -------------------------------------------------------------------------------------


class Counting(nn.Module):
    """Changes its own attributes in every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.passes, self.history = 0, [1.0]
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        self.history.append(float(self.passes))
        self.last = x
        noise = torch.rand(x.shape, generator=self.generator)
        scores: Tensor = self.layer(x + 0.1 * noise * self.training)
        return scores


def counting() -> Training:
    return Training(Counting(), classes(), class_loss)


def closure() -> Training:
    """Its forward is a function that calls the model itself, as Accelerate makes it."""
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    inner = model.forward
    model.forward = lambda x: inner(x).float()  # type: ignore[method-assign,no-untyped-call]
    return Training(model, classes(), class_loss)


class Codes(nn.Module):
    """Rounds to the nearest code, with two losses of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.codes, self.back = nn.Linear(6, 4), nn.Embedding(8, 4), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        exact = self.code(x)
        nearest = self.codes(torch.cdist(exact, self.codes.weight).argmin(1))
        distance = F.mse_loss(nearest, exact.detach()) + F.mse_loss(exact, nearest.detach()) / 4
        return self.back(exact + (nearest - exact).detach()), distance


def codes() -> Training:
    return Training(Codes(), torch.randn(16, 6), lambda out, x: F.mse_loss(out[0], x) + out[1])


class Taught(nn.Module):
    """Follows a teacher that gets no gradient, and computes its loss by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = nn.Linear(6, 8), nn.Linear(6, 8).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return 2 - 2 * (F.normalize(self.student(x)) * F.normalize(self.teacher(x))).sum(1).mean()


def taught() -> Training:
    return Training(Taught(), torch.randn(8, 6))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 16)
        self.head = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.second, self.first(x), use_reentrant=True)
        scores: Tensor = self.head(F.relu(x))
        return scores


def checkpointed() -> Training:
    return Training(Checkpointed(), classes(), class_loss)


def physics() -> Training:
    """Its loss takes the derivative of the model, which it calls by itself."""
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss(output: Tensor, batch: Tensor) -> Tensor:
        x = batch.clone().requires_grad_()
        y = model(x)
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        squares: Tensor = ((slope - y) ** 2).mean()
        return squares

    return Training(model, torch.rand(16, 1), loss)


HEALTHY: tuple[Callable[[], Training], ...] = (
    language, logits_of_language, recurrent, reversal, classifier, regression, binary, batchnorm,
    quantised, custom_function, adapters, zero_head, autoencoder, diffusion, graph,
    graph_in_closure, messages, experts, contrast, comparison, counting, closure, codes,
    taught, checkpointed, physics,
)  # fmt: skip
