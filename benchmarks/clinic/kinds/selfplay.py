"""A game that a network plays against itself, with a look ahead."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.acting import CROWD, Remembered
from benchmarks.clinic.task import Kind, OptimizerChoice, Split

SQUARES, SHARP = 9, 0.3
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def has_won(boards: Tensor) -> Tensor:
    """Whether who has ones has three in a line."""
    lines: Tensor = (boards[..., LINES] == 1).all(-1).any(-1)
    return lines


class Noughts(Remembered):
    """Noughts and crosses: a policy and a value learn what a look one move ahead finds.

    Each step plays a move of many games against oneself (as AlphaZero, with a smaller search).
    """

    inputs, told = 2 * SQUARES, 2 * SQUARES + 1

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.model = nn.Sequential(
            *(nn.Linear(2 * SQUARES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
            nn.Linear(width, SQUARES + 1),
        )
        self._boards = torch.zeros(2 * CROWD, SQUARES)  # of who moves: own 1, the other's -1

    def _seen(self, boards: Tensor) -> Tensor:
        return torch.cat([boards == 1, boards == -1], -1).float()

    def _ahead(self, boards: Tensor) -> tuple[Tensor, Tensor]:
        """The policy after a look ahead, and the worth of a board for who moves."""
        after = boards.unsqueeze(1) + torch.eye(SQUARES, device=boards.device)
        prior, values = self.model(self._seen(boards)), self.model(self._seen(-after))
        worth = torch.where((after != 0).all(2), 0.0, -values[..., SQUARES].tanh())
        worth = torch.where(has_won(after), 1.0, worth)
        scores = 0.5 * prior[:, :SQUARES].log_softmax(1) + worth / SHARP
        policy = scores.masked_fill(boards != 0, -1e9).nan_to_num(-1.0).softmax(1)
        return policy, (policy * worth).sum(1)

    def turn(self) -> list[Tensor]:
        boards, free = self._boards, (self._boards == 0).float()
        with torch.no_grad():
            policy, worth = self._ahead(boards)
        drawn = torch.multinomial(0.7 * policy + 0.3 * free / free.sum(1, keepdim=True), 1)
        after = boards.scatter(1, drawn, 1.0)
        ends = has_won(after) | (after != 0).all(1)
        self._boards = torch.where(ends.unsqueeze(1), 0.0, -after)
        return [self._seen(boards), free, policy, worth.unsqueeze(1)]

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        free, policy, worth = targets[:, :9], targets[:, 9:18], targets[:, 18:]
        chances = outputs[:, :SQUARES].masked_fill(free == 0, -1e9).log_softmax(1)
        wrong = functional.mse_loss(outputs[:, SQUARES:].tanh(), worth)
        loss: Tensor = wrong - (policy * chances).sum(1).mean()
        return loss

    def figures(self) -> dict[str, float]:
        return {}

    def evaluate(self, split: Split) -> dict[str, float]:
        """The score of games against chance, half of them as the second."""
        boards, score = torch.zeros(1024, SQUARES, device=self.device), 0.0
        own = torch.arange(1024, device=self.device) % 2 == 0
        playing = torch.ones_like(own)
        for _ in range(SQUARES):
            with torch.no_grad():
                said = self.model(self._seen(boards))[:, :SQUARES].nan_to_num(-1.0)
            said = torch.where(own.unsqueeze(1), said, torch.rand_like(said))
            move = said.masked_fill(boards != 0, -1e9).argmax(1, keepdim=True)
            boards = boards.scatter(1, move, 1.0)
            won = has_won(boards) & playing
            score += float((won & own).sum() - (won & ~own).sum()) / len(own)
            playing, own, boards = playing & ~won, ~own, -boards
        return {"score": score}

    def result(self) -> float:
        return -self.evaluate(self.held_out)["score"]


KINDS = (
    Kind(
        "noughts",
        "blind6",
        Noughts,
        (OptimizerChoice("adam", 6e-3, decay="linear"), OptimizerChoice("nesterov", 0.15)),
        steps=800,
        batch_size=64,
        warmup=80,
        num_evals=10,
        typed=False,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 exploding_init frozen dead_relu missing_zero_grad schedule_unit wrong_sign "
            "missing_step",
            "rate_x30 rate_x10 clip_tight tiny_init rate_zero wrong_reduction missing_parameters "
            "rate_too_small",
        ),
    ),
)
