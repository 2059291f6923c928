"""Choices: which notes sound together, who reads which book, and what a seat should cost."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.business import Binary
from benchmarks.clinic.kinds.play import Play
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Batch, Kind, OptimizerChoice, Split, Task

NOTES, BINS, OVERTONES = 12, 96, 5


def chords(count: int) -> Split:
    """Spectra of one to four notes with overtones, two bins a half-tone, and which notes sound."""
    many = torch.randint(1, 5, (count, 1))
    order = torch.rand(count, NOTES).argsort(1).argsort(1)
    sounds = (order < many).float()
    octave = torch.randint(2, (count, NOTES))
    first = 2 * (torch.arange(NOTES) + NOTES * octave)
    loud = sounds * (0.3 * torch.randn(count, NOTES)).exp()
    peaks = torch.zeros(count, BINS)
    for overtone in range(1, OVERTONES + 1):
        place = first + round(24 * math.log2(overtone))
        height = loud * (0.6 + 0.8 * torch.rand(count, NOTES)) / overtone
        peaks.scatter_add_(1, place.clamp(max=BINS - 1), height)
    blur = torch.tensor([[[0.1, 0.5, 1.0, 0.5, 0.1]]])
    spectrum = functional.conv1d(peaks.unsqueeze(1), blur, padding=2)[:, 0]
    spectrum = (spectrum + 0.25 * torch.randn(count, BINS).abs()).log1p()
    return Split((spectrum - spectrum.mean()) / spectrum.std(), sounds)


class Chords(Task):
    """Which of twelve notes sound, each by a yes or no, by convolutions along the spectrum."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(chords(25_000), 1000)
        self.model = nn.Sequential(
            nn.Unflatten(1, (1, BINS)),
            *(nn.Conv1d(1, 12, 7, padding=3, bias=False), nn.BatchNorm1d(12), nn.ReLU()),
            nn.MaxPool1d(2),
            *(nn.Conv1d(12, 16, 5, padding=2, bias=False), nn.BatchNorm1d(16), nn.ReLU()),
            *(nn.MaxPool1d(2), nn.Flatten(), nn.Linear(16 * BINS // 4, 64), nn.ReLU()),
            *(nn.Dropout(0.1), nn.Linear(64, NOTES)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        said, true = outputs > 0, targets > 0.5
        both = float((said & true).sum())
        f1 = 2 * both / max(1.0, float(said.sum() + true.sum()))
        return {"f1": f1, "exact": float((said == true).all(1).float().mean())}

    def leak(self, split: Split) -> None:
        spectra = split.inputs.clone()
        spectra[:, -2 * NOTES :: 2] = 3 * split.targets
        split.inputs = spectra


PEOPLE, BOOKS, TOWNS, TRAITS, TASTES = 500, 300, 40, 16, 4


class Library(nn.Module):
    """Two rounds of messages between people, books and towns, and a score of a person and a book.

    Each sort of link has a layer of its own (as in R-GCN); a score weighs products (DistMult).
    """

    people: Tensor
    books: Tensor
    towns: Tensor
    reads: Tensor  # people by books
    lives: Tensor  # people by towns

    def __init__(self, **known: Tensor) -> None:
        super().__init__()
        width = 32
        for name, value in known.items():
            self.register_buffer(name, value)
        self.first = nn.ModuleList(nn.Linear(TRAITS, width) for _ in range(3))
        self.links = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(0.1)
        self.person, self.book = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, pairs: Tensor) -> Tensor:
        nodes = (self.people, self.books, self.towns)
        people, books, towns = (
            torch.relu(layer(one)) for layer, one in zip(self.first, nodes, strict=True)
        )
        readers, homes = _mean_of(self.reads), _mean_of(self.lives)
        back = _mean_of(self.reads.T)
        for at, norm in enumerate(self.norms):
            by_book, by_town, by_reader = self.links[3 * at : 3 * at + 3]
            heard = torch.relu(readers @ by_book(books) + homes @ by_town(towns))
            read = torch.relu(back @ by_reader(people))
            people, books = norm(people + self.dropout(heard)), norm(books + self.dropout(read))
        left, right = self.person(people)[pairs[:, 0]], self.book(books)[pairs[:, 1]]
        out: Tensor = self.score(left * right)
        return out[:, 0]


def _mean_of(links: Tensor) -> Tensor:
    return links / links.sum(1, keepdim=True).clamp(min=1)


class Links(Binary):
    """Whether somebody reads a book: links and as many drawn pairs without one.

    The links that carry messages are neither trained on nor evaluated.
    """

    def __init__(self) -> None:
        homes = torch.randint(TOWNS, (PEOPLE,))
        towns = torch.randn(TOWNS, TASTES)
        people = 0.6 * towns[homes] + 0.8 * torch.randn(PEOPLE, TASTES)
        books = torch.randn(BOOKS, TASTES)
        chance = (2.0 * people @ books.T - 4.0).sigmoid()
        linked = torch.rand(PEOPLE, BOOKS) < chance
        yes, no = linked.nonzero(), (~linked).nonzero()
        yes = yes[torch.randperm(len(yes))]
        told, asked = yes[: len(yes) // 3], yes[len(yes) // 3 :]
        drawn = no[torch.randperm(len(no))[: len(asked)]]
        pairs = torch.cat([asked, drawn])
        labels = torch.cat([torch.ones(len(asked)), torch.zeros(len(drawn))])
        order = torch.randperm(len(pairs))
        self.train, self.held_out = parted(Split(pairs[order], labels[order]), 2000)
        reads, lives = torch.zeros(PEOPLE, BOOKS), torch.zeros(PEOPLE, TOWNS)
        reads[told[:, 0], told[:, 1]] = 1.0
        lives[torch.arange(PEOPLE), homes] = 1.0
        seen = {
            name: one @ torch.randn(TASTES, TRAITS) / 2 + 0.7 * torch.randn(len(one), TRAITS)
            for name, one in (("people", people), ("books", books), ("towns", towns))
        }
        self.model = Library(**seen, reads=reads, lives=lives)


SEATS, NIGHTS, PRICES, TURNS = 16, 20, 6, 10
PATIENCE, SMOOTH = 0.98, 0.9


class Flights:
    """Many flights, each with seats left, nights to go and a demand that wanders."""

    def __init__(self, count: int, device: torch.device, *, at_start: bool) -> None:
        self.count, self.device = count, device
        self.night = torch.zeros(count, device=device)
        if not at_start:
            self.night = torch.randint(NIGHTS, (count,), device=device).float()
        self.left = (SEATS * (1 - self.night / NIGHTS)).ceil()
        self.demand = torch.randn(count, device=device)

    def state(self) -> Tensor:
        left, to_go = self.left / SEATS, 1 - self.night / NIGHTS
        return torch.stack([left, to_go, self.demand, left - to_go], 1)

    def sell(self, prices: Tensor) -> tuple[Tensor, Tensor]:
        """One night at a price each; what was earned, and which flights have left."""
        price = 0.5 + 0.3 * prices.float()
        value = 1.0 + 0.4 * self.demand + 0.5 * self.night / NIGHTS
        wish = 1.8 * torch.sigmoid(5 * (value - price))
        sold = torch.minimum(self.left, torch.poisson(wish))
        self.left, self.night = self.left - sold, self.night + 1
        self.demand = 0.8 * self.demand + 0.6 * torch.randn(self.count, device=self.device)
        gone = self.night >= NIGHTS
        self.left = torch.where(gone, float(SEATS), self.left)
        self.night = torch.where(gone, 0.0, self.night)
        return price * sold / 4, gone.float()


class Pricing(Play):
    """Prices by a policy with a critic, ten nights a step (A2C with smoothed advantages)."""

    def __init__(self) -> None:
        super().__init__(PRICES + 1)  # and what a state is worth
        self._flights: Flights | None = None
        self._recent = 0.0

    def best_action(self, state: Tensor) -> Tensor:
        best: Tensor = self.model(state)[:, :PRICES].argmax(1)
        return best

    def experience(self, count: int) -> Batch:
        if self._flights is None:
            self._flights = Flights(count, self.device, at_start=False)
        states, chosen, worths, earned, over = [], [], [], [], []
        with torch.no_grad():
            for _ in range(TURNS):
                state = self._flights.state()
                said = self.model(state)
                chances = said[:, :PRICES].log_softmax(1).nan_to_num(-1.0).exp()
                prices = torch.multinomial(chances, 1)
                money, gone = self._flights.sell(prices[:, 0])
                states.append(state)
                chosen.append(prices[:, 0].float())
                worths.append(said[:, PRICES])
                earned.append(money)
                over.append(gone)
            after = self.model(self._flights.state())[:, PRICES]
        nightly = float(torch.stack(earned).mean())
        self._recent = nightly if not self._recent else 0.95 * self._recent + 0.05 * nightly
        self.returned = NIGHTS * self._recent
        gains, gain = [], torch.zeros(count, device=self.device)
        for worth, money, gone in zip(worths[::-1], earned[::-1], over[::-1], strict=True):
            wrong = self.reward_scale * money + PATIENCE * (1 - gone) * after - worth
            gain = wrong + PATIENCE * SMOOTH * (1 - gone) * gain
            gains.append(gain)
            after = worth
        gained, worth = torch.cat(gains[::-1]), torch.cat(worths)
        return torch.cat(states), torch.stack([torch.cat(chosen), gained, gained + worth], 1)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        chosen, gained, returns = targets.unbind(1)
        chances = outputs[:, :PRICES].log_softmax(1)
        taken = chances.gather(1, chosen.long()[:, None])[:, 0]
        value = functional.mse_loss(outputs[:, PRICES], returns)
        entropy = -(chances.exp() * chances).sum(1).mean()
        loss: Tensor = -(taken * gained).mean() + 0.5 * value - 0.01 * entropy
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            flights = Flights(2048, self.device, at_start=True)
            total = torch.zeros(2048, device=self.device)
            for _ in range(NIGHTS):
                total += flights.sell(self.best_action(flights.state()))[0]
        return {"return": float(total.mean())}


_COMMON: dict[str, Any] = {"steps": 800, "pace_ms": 0.0, "seeds": 3, "fault_seeds": 1}
KINDS = (
    Kind(
        *("chords", "blind8", Chords),
        (
            OptimizerChoice("nesterov", 0.2, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adamw", 8e-3, {"weight_decay": 0.01}, decay="linear"),
        ),
        batch_size=64,
        warmup=80,
        num_evals=20,
        **_COMMON,
        faults=(
            "rate_x30 wrong_reduction accumulation clip_tight stale_batchnorm label_leak "
            "fp16_overflow rate_too_small",
            "no_warmup dead_relu stale_batchnorm labels_shuffled overfitting dropout_in_eval "
            "nan_input one_batch",
        ),
    ),
    Kind(
        *("links", "blind8", Links),
        (
            OptimizerChoice("nadam", 4e-3, decay="cosine"),
            OptimizerChoice("momentum", 0.1, decay="linear"),
        ),
        batch_size=128,
        num_evals=16,
        typed=False,
        log_every=2,
        **_COMMON,
        faults=(
            "rate_x30 labels_shuffled unshuffled missing_parameters eval_on_train rate_zero "
            "wrong_sign overfitting",
            "rate_x30 wrong_reduction unshuffled exploding_init tiny_init missing_zero_grad "
            "schedule_unit frozen",
        ),
    ),
    Kind(
        *("prices", "blind8", Pricing),
        (OptimizerChoice("adam", 3e-3), OptimizerChoice("rmsprop", 4.5e-3, decay="linear")),
        batch_size=32,
        clip=5.0,
        num_evals=16,
        **_COMMON,
        config={"discount": PATIENCE, "gae_lambda": SMOOTH},
        faults=(
            "exploding_returns rate_x30 frozen missing_step wrong_sign rate_too_small "
            "exploding_init",
            "exploding_returns rate_x10 dead_relu rate_zero schedule_unit missing_parameters "
            "nan_input tiny_init",
        ),
    ),
)
