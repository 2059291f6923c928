"""Small real trainings, healthy or with one fault, with the findings that each one gets.

Each is recorded as a user would record it. Seeds are fixed and one thread computes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import epochal
from epochal import watch
from epochal.health.finding import Finding
from epochal.run.run import Run
from epochal.store.local.by_path import load_run

VOCABULARY, CONTEXT, WIDTH, BATCH = 16, 24, 32, 16
CLASSES, FEATURES, RATE = 10, 20, 0.05
PROMPTS, ANSWERS, GROUP = 8, 12, 16


@dataclass(frozen=True, slots=True)
class Settings:
    """What a language model is trained with."""

    lr: float = 3e-3
    warmup: int = 80
    steps: int = 250
    is_sgd: bool = False
    forgotten: str = ""  # parameters of this module are in no optimizer


class Reader(nn.Module):
    """A transformer of two blocks that reads letters; norms after the residual need care."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, text: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        hidden = self.letters(text) + self.places.weight
        for block in self.blocks:
            hidden = block(hidden, src_mask=mask)
        letters: Tensor = self.head(hidden)
        return letters


class Language:
    """Texts of a made-up language: each letter makes some of the next ones likelier."""

    def __init__(self, seed: int) -> None:
        self._source = torch.Generator().manual_seed(seed)
        fixed = torch.Generator().manual_seed(1)
        self._next = torch.softmax(2.5 * torch.randn(VOCABULARY, VOCABULARY, generator=fixed), 1)

    def batch(self) -> Tensor:
        """Texts one letter longer than the context."""
        text = torch.randint(VOCABULARY, (BATCH, 1), generator=self._source)
        while text.shape[1] <= CONTEXT:
            following = torch.multinomial(self._next[text[:, -1]], 1, generator=self._source)
            text = torch.cat([text, following], dim=1)
        return text


def read_letters(run: Run, settings: Settings) -> None:
    """Train the reader, with an evaluation every 50 steps."""
    model = Reader()
    forgotten = settings.forgotten
    trained = [
        parameter
        for name, parameter in model.named_parameters()
        if not forgotten or not name.startswith(forgotten)
    ]
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(trained, lr=settings.lr)
    if settings.is_sgd:
        optimizer = torch.optim.SGD(trained, lr=settings.lr, momentum=0.9)
    watch(model, run, every=10, histograms=False)
    texts, others = Language(2), Language(3)
    for step in range(settings.steps):
        rate = settings.lr * min(1.0, (step + 1) / max(1, settings.warmup))
        optimizer.param_groups[0]["lr"] = rate
        loss = _loss(model, texts.batch())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        optimizer.step()
        run.log({"loss": loss, "grad_norm": norm, "lr": rate}, step=step)
        if step % 50 == 49:
            with torch.no_grad():
                run.log({"eval_loss": _loss(model, others.batch())}, step=step)


def _loss(model: nn.Module, text: Tensor) -> Tensor:
    guesses = model(text[:, :-1])
    return functional.cross_entropy(guesses.flatten(0, 1), text[:, 1:].flatten())


class Points:
    """Noisy points round ten centres; with a leak, the answer is among the features."""

    def __init__(self, *, leak: bool = False) -> None:
        self._source = torch.Generator().manual_seed(4)
        self._centres = torch.randn(CLASSES, FEATURES, generator=self._source)
        self._leaking = 8.0 if leak else 0.0

    def batch(self, count: int) -> tuple[Tensor, Tensor]:
        """Features and labels."""
        labels = torch.randint(CLASSES, (count,), generator=self._source)
        noise = torch.randn(count, FEATURES, generator=self._source)
        answers = functional.one_hot(labels, CLASSES) * self._leaking
        return torch.cat([self._centres[labels] + 2.0 * noise, answers], dim=1), labels


def classify(run: Run, *, leak: bool = False) -> None:
    """Train a classifier, with an evaluation every 25 steps."""
    data, model, optimizer = Points(leak=leak), *_classifier()
    for step in range(400):
        loss, norm = _learn(model, optimizer, *data.batch(256))
        run.log({"loss": loss, "grad_norm": norm, "lr": RATE}, step=step)
        if step % 25 == 24:
            _evaluate(run, model, *data.batch(512), step=step)


def fit_line(run: Run, *, rate: float = 0.05) -> None:
    """Fit a linear regression, which is learned within some dozen steps; nothing is wrong."""
    truth = torch.randn(10, 1)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def batch(count: int) -> tuple[Tensor, Tensor]:
        inputs = torch.randn(count, 10)
        return inputs, inputs @ truth + 0.3 * torch.randn(count, 1)

    _regress(run, model, optimizer, batch, steps=300)


def price(run: Run) -> None:
    """Learn prices in the hundred thousands, so that losses are of ten digits; nothing is wrong."""
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    model.append(nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def batch(count: int) -> tuple[Tensor, Tensor]:
        inputs = torch.randn(count, 12)
        trend = torch.tanh(inputs[:, :1] + 0.5 * inputs[:, 1:2] * inputs[:, 2:3])
        return inputs, 2e5 * (1 + trend + 0.1 * torch.randn(count, 1))

    _regress(run, model, optimizer, batch, steps=900)


def tune_head(run: Run) -> None:
    """Train a classifier, freeze its body with the gradients it has, and go on with the head."""
    data, model, optimizer = Points(), *_classifier()
    assert isinstance(model, nn.Sequential)
    for _ in range(50):
        _learn(model, optimizer, *data.batch(256))
    model[0].requires_grad_(False)
    watch(model, run, every=5, histograms=False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=RATE)
    for step in range(100):
        loss, norm = _learn(model, optimizer, *data.batch(256))
        run.log({"loss": loss, "grad_norm": norm, "lr": RATE}, step=step)


def _regress(
    run: Run,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Callable[[int], tuple[Tensor, Tensor]],
    *,
    steps: int,
) -> None:
    held_out = batch(500)
    for step in range(steps):
        inputs, targets = batch(32)
        loss = functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        run.log({"loss": loss}, step=step)
        if step % 50 == 49:
            with torch.no_grad():
                error = functional.mse_loss(model(held_out[0]), held_out[1])
            run.log({"eval_loss": error}, step=step)


def wait_for_input(run: Run) -> None:
    """Train on larger batches that arrive late, and log how long each step computed."""
    data, model, optimizer = Points(), *_classifier()
    for step in range(100):
        inputs, labels = data.batch(1024)
        time.sleep(0.1)
        begun = time.perf_counter()
        loss, norm = _learn(model, optimizer, inputs, labels)
        duration_ms = (time.perf_counter() - begun) * 1000
        run.log_step(step, step / 100, 1024, duration_ms, norm, loss, RATE)


def _classifier() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(FEATURES + CLASSES, 512), nn.ReLU(), nn.Linear(512, CLASSES))
    return model, torch.optim.SGD(model.parameters(), lr=RATE)


def _learn(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    loss = functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    optimizer.step()
    return loss, norm


def _evaluate(run: Run, model: nn.Module, inputs: Tensor, labels: Tensor, *, step: int) -> None:
    with torch.no_grad():
        guesses = model(inputs)
        loss = functional.cross_entropy(guesses, labels)
        accuracy = (guesses.argmax(1) == labels).float().mean()
    run.log({"eval/loss": loss, "eval/accuracy": accuracy}, step=step)


def reward_answers(*, collapse_at: int | None = None) -> Iterator[dict[str, float]]:
    """Reinforce right answers with advantages of groups and a KL penalty; yields the metrics.

    The update of ``collapse_at`` is far too large. All answers of a group are alike then, so that
    none is better than the others.
    """
    policy, first = nn.Linear(PROMPTS, ANSWERS), nn.Linear(PROMPTS, ANSWERS)
    first.load_state_dict(policy.state_dict())
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    right = torch.randperm(ANSWERS)[:PROMPTS]
    prompts = torch.arange(PROMPTS).repeat_interleave(GROUP)
    inputs = functional.one_hot(prompts, PROMPTS).float()
    before = first(inputs).log_softmax(1).detach()
    for step in range(400):
        chances = policy(inputs).log_softmax(1)
        answers = torch.multinomial(chances.exp().detach(), 1)
        rewards = (answers[:, 0] == right[prompts]).float().view(PROMPTS, GROUP)
        spread = rewards.std(1, keepdim=True) + 1e-4
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / spread).flatten()
        chosen = chances.gather(1, answers)[:, 0]
        away = before.gather(1, answers)[:, 0] - chosen
        kl = (away.exp() - away - 1).mean()
        loss = -((chosen - chosen.detach()).exp() * advantages).mean() + 0.001 * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == collapse_at:
            policy.weight.data += 100.0 * torch.randn_like(policy.weight)
        shown = {"train/loss": loss, "train/reward": rewards.mean(), "train/kl": kl}
        yield {name: value.item() for name, value in shown.items()}


_WARMED = Settings(lr=0.8, is_sgd=True)

TRAININGS: Mapping[str, Callable[[Run], None]] = {
    "reader": lambda run: read_letters(run, Settings()),
    "reader-rate-x30": lambda run: read_letters(run, Settings(lr=30 * Settings().lr)),
    "reader-frozen": lambda run: read_letters(run, Settings(forgotten="blocks.1.linear1")),
    "reader-warmed": lambda run: read_letters(run, _WARMED),
    "reader-unwarmed": lambda run: read_letters(run, replace(_WARMED, warmup=0)),
    "classes": classify,
    "input-slow": wait_for_input,
    "classes-leak": lambda run: classify(run, leak=True),
    "line": fit_line,
    "line-slow": lambda run: fit_line(run, rate=0.02),
    "prices": price,
    "head": tune_head,
}


def diagnose(name: str, folder: Path, *, seed: int = 0) -> list[Finding]:
    """Run one training in ``folder`` and give what was found in it, as it stands in the end."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            place = _record(name, folder)
    finally:
        torch.set_num_threads(threads)
    newest: dict[str, Finding] = {}
    for entry in load_run(place).findings(most=None):
        finding = Finding.from_record(entry.record)
        if finding is not None:
            newest[finding.id] = finding
    return list(newest.values())


def _record(name: str, folder: Path) -> Path:
    run = epochal.init(
        "real",
        name,
        dir=folder,
        console=False,
        companion=False,
        config={"num_classes": CLASSES} if name.startswith("classes") else None,
    )
    try:
        TRAININGS[name](run)
    finally:
        run.finish()
    return Path(run.dir)
