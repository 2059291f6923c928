"""Things with a structure: molecules, tables of columns, plays that were recorded, colours."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from benchmarks.clinic.kinds.experts import Experts, balance_of
from benchmarks.clinic.kinds.meeting import EPISODE, Gliders, Pilot
from benchmarks.clinic.kinds.pictures import SIDE, layer, thing
from benchmarks.clinic.kinds.play import DISCOUNT
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

ATOMS, ELEMENTS, BONDS = 10, 5, 3


def molecules(count: int) -> Split:
    """Trees of atoms with a ring here and there; energy by atoms, bonds and neighbours.

    A row has an element for each atom, one of which is none, and the bonds between all pairs.
    """
    size = torch.randint(5, ATOMS + 1, (count, 1))
    elements = torch.randint(1, ELEMENTS, (count, ATOMS)) * (torch.arange(ATOMS) < size)
    bonds, rows = torch.zeros(count, ATOMS, ATOMS), torch.arange(count)
    for atom in range(1, ATOMS):
        there = (elements[:, atom] > 0).float()
        for chance in (1.0, 0.2):
            other = torch.randint(atom, (count,))
            kind = torch.randint(1, BONDS + 1, (count,)) * there * (torch.rand(count) < chance)
            bonds[rows, atom, other] = bonds[rows, other, atom] = torch.maximum(
                kind, bonds[rows, atom, other]
            )
    alone, pair = torch.randn(ELEMENTS), torch.randn(BONDS + 1, ELEMENTS, ELEMENTS)
    alone[0], pair[0] = 0, 0
    first, second = elements.unsqueeze(2).expand_as(bonds), elements.unsqueeze(1).expand_as(bonds)
    own = alone[elements].sum(1) + pair[bonds.long(), first, second].sum((1, 2))
    crowded = ((bonds > 0).float() @ (elements == 1).float().unsqueeze(2)).squeeze(2)
    energy = own + 1.5 * (crowded * (elements == 2)).sum(1) + 0.1 * torch.randn(count)
    energy = (energy - energy.mean()) / energy.std()
    return Split(torch.cat([elements.unsqueeze(2).float(), bonds], 2), energy)


class Messages(nn.Module):
    """Atoms tell their neighbours what they are, by the kind of bond; all of them are added up."""

    def __init__(self, width: int = 32, rounds: int = 3) -> None:
        super().__init__()
        self.elements = nn.Embedding(ELEMENTS, width, padding_idx=0)
        self.tell = nn.ModuleList(nn.Linear(width, BONDS * width) for _ in range(rounds))
        self.hear = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(rounds))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, graphs: Tensor) -> Tensor:
        elements, bonds = graphs[..., 0].long(), graphs[..., 1:]
        there = (elements > 0).unsqueeze(-1)
        hidden = self.elements(elements)
        kinds = torch.stack([(bonds == kind).float() for kind in range(1, BONDS + 1)], 1)
        for tell, hear in zip(self.tell, self.hear, strict=True):
            told = tell(hidden).unflatten(-1, (BONDS, -1)).permute(0, 2, 1, 3)
            heard = (kinds @ told).sum(1)
            hidden = hidden + torch.relu(hear(torch.cat([hidden, heard], -1))) * there
        out: Tensor = self.head(hidden.sum(1) / ATOMS)
        return out[:, 0]


class Molecules(Task):
    """The energy of a molecule, by its mean absolute error."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(molecules(8500), 500)
        self.model = Messages()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.l1_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        rest = (outputs - targets).square().mean() / targets.var()
        return {"r2": float(1 - rest)}


NUMBERS, CHOICES, OPTIONS, WIDTH = 8, 3, 6, 24


def columns(count: int) -> Split:
    """Numbers and choices of houses; prices follow another rule in each of six towns."""
    numbers = torch.randn(count, NUMBERS)
    choices = torch.randint(OPTIONS, (count, CHOICES))
    rules = torch.randn(OPTIONS, NUMBERS)
    price = (rules[choices[:, 0]] * torch.tanh(numbers)).sum(1)
    price = price + torch.randn(OPTIONS, OPTIONS)[choices[:, 1], choices[:, 2]]
    price = price + numbers[:, 0] * numbers[:, 1] + 0.2 * torch.randn(count)
    return Split(torch.cat([numbers, choices.float()], 1), price / price.std())


class Columns(nn.Module):
    """A vector for each column and one for the row; attention between them, then experts."""

    first: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(NUMBERS, WIDTH) / WIDTH**0.5)
        self.shift = nn.Parameter(torch.randn(NUMBERS, WIDTH) / WIDTH**0.5)
        self.options = nn.Embedding(CHOICES * OPTIONS, WIDTH)
        self.row = nn.Parameter(torch.randn(1, WIDTH) / WIDTH**0.5)
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.moe = Experts(WIDTH, 6, 1)
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1))
        self.register_buffer("first", OPTIONS * torch.arange(CHOICES))

    def forward(self, rows: Tensor) -> Tensor:
        numbers = rows[:, :NUMBERS, None] * self.scale + self.shift
        chosen = self.options(rows[:, NUMBERS:].long() + self.first)
        x = torch.cat([self.row.expand(len(rows), 1, -1), numbers, chosen], 1)
        normed = self.before(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        x = x + self.moe(self.between(x))
        out: Tensor = self.head(x[:, 0])
        return out[:, 0]


class Houses(Task):
    """The price of a house from a table, by Huber's loss."""

    balance_share = 0.02

    def __init__(self) -> None:
        self.train, self.held_out = parted(columns(12_700), 700)
        self.model = Columns()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        loss = functional.huber_loss(outputs, targets)
        if torch.is_grad_enabled():
            loss = loss + self.balance_share * balance_of(self.model)
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"rmse": float(functional.mse_loss(outputs, targets).sqrt())}


class Recorded(Task):
    """Learns to glide from records of somebody's play, and stays near what was done there."""

    near_share = 1.0

    def __init__(self) -> None:
        self.reward_scale = 1.0
        self.train, self.held_out = parted(self._played(300), 1000)
        self.model: Pilot = Pilot()
        self._slow = copy.deepcopy(self.model).requires_grad_(False)

    @staticmethod
    def _played(crowd: int) -> Split:
        """Some steer towards the goal, more or less well, and some at random."""
        world, rows = Gliders(crowd, torch.device("cpu")), []
        skill = torch.rand(crowd, 1)
        for _ in range(EPISODE):
            state = world.state()
            steer = -2 * state[:, :2] - state[:, 2:]
            force = skill * steer + (1.2 - skill) * torch.randn(crowd, 2)
            force = force.clamp(-1, 1)
            reward = world.push(force)
            rows.append(torch.cat([state, force, reward[:, None], world.state()], 1))
        played = torch.cat(rows)[torch.randperm(crowd * EPISODE)]
        return Split(played[:, :6], played[:, 6:])

    def before_step(self, step: int, rate: float) -> None:
        with torch.no_grad():
            for slow, now in zip(self._slow.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(now, 0.02)

    def outputs(self, inputs: Tensor) -> Any:
        states, actions = inputs[:, :4], inputs[:, 4:]
        chosen = self.model(states)
        held = {name: one.detach() for name, one in self.model.critic.named_parameters()}
        worth = functional_call(self.model.critic, held, (torch.cat([states, chosen], 1),))
        return self.model.worth(states, actions), worth[:, 0], (chosen - actions).square().mean()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        said, worth, away = outputs
        reward, later = targets[:, 0], targets[:, 1:]
        with torch.no_grad():
            aim = self._slow.worth(later, self._slow(later))
            aim = self.reward_scale * reward + DISCOUNT * aim
        actor = -worth.mean() / worth.detach().abs().mean().clamp(min=1e-3)
        loss: Tensor = functional.mse_loss(said, aim) + actor + self.near_share * away
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        world = Gliders(256, self.device)
        total = torch.zeros(256, device=self.device)
        for _ in range(EPISODE):
            total += world.push(self.model(world.state()))
        return {"return": float(total.mean())}

    def result(self) -> float:
        self.model.eval()
        return -self.evaluate(self.held_out)["return"]


COLOURS = 6


def grey(count: int) -> Split:
    """Pictures without their colours; a thing's colour follows its texture, the ground's its light.

    The target is the colour of each pixel, one of a palette.
    """
    places = torch.arange(SIDE)
    down, right = torch.meshgrid(places, places, indexing="ij")
    textures = torch.stack([down % 2, right % 2, (down + right) % 2, 1 + 0 * down]).float()
    light = torch.rand(count, 1, 1, 1)
    pictures = 2 * light - 1 + torch.linspace(-0.5, 0.5, SIDE).view(1, 1, -1, 1)
    pictures, colours = pictures.expand(-1, -1, -1, SIDE), (light > 0.5).long()
    colours = colours.expand(-1, -1, SIDE, SIDE)
    for _ in range(4):
        where, texture = thing(count), torch.randint(4, (count,))
        pictures = torch.where(where, 1.6 * textures[texture].unsqueeze(1) - 0.8, pictures)
        colours = torch.where(where, 2 + texture.view(-1, 1, 1, 1), colours)
    return Split(pictures + 0.5 * torch.randn(count, 1, SIDE, SIDE), colours[:, 0])


class Colouring(Task):
    """The colour of each pixel by convolutions."""

    def __init__(self, width: int = 16) -> None:
        self.train, self.held_out = parted(grey(4300), 300)
        self.model = nn.Sequential(
            *(layer(1, width), layer(width, width), layer(width, width)),
            nn.Conv2d(width, COLOURS, 1),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(1) == targets).float().mean())}


KINDS = (
    Kind(
        "molecules",
        "blind4",
        Molecules,
        (OptimizerChoice("adam", 3e-3, decay="linear"), OptimizerChoice("radam", 3e-3)),
        steps=1000,
        batch_size=48,
        seeds=4,
        faults=(
            "rate_x30 labels_shuffled overfitting missing_step tiny_init",
            "rate_x10 rate_zero missing_parameters wrong_sign schedule_unit",
        ),
    ),
    Kind(
        "columns",
        "blind4",
        Houses,
        (
            OptimizerChoice("adamw", 3e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("adafactor", 0.02, decay="sqrt"),
        ),
        steps=900,
        batch_size=48,
        warmup=50,
        clip=1.0,
        seeds=4,
        config={"num_experts": 6, "top_k": 1},
        faults=(
            "no_warmup router_collapse labels_shuffled overfitting frozen rate_x30",
            "rate_x30 rate_too_small router_collapse missing_zero_grad schedule_unit",
        ),
    ),
    Kind(
        "offline",
        "blind4",
        Recorded,
        (OptimizerChoice("adam", 3e-3), OptimizerChoice("adamw", 6e-3, decay="linear")),
        steps=1200,
        batch_size=64,
        seeds=4,
        faults=(
            "exploding_returns labels_shuffled rate_zero frozen wrong_sign missing_step",
            "rate_x30 exploding_returns exploding_init nan_input tiny_init",
        ),
    ),
    Kind(
        "ddp_colours",
        "blind4",
        Colouring,
        (OptimizerChoice("momentum", 0.3, decay="cosine"), OptimizerChoice("adam", 4e-3)),
        steps=600,
        batch_size=16,
        num_evals=12,
        world=2,
        seeds=4,
        config={"num_classes": COLOURS},
        faults=(
            "hang rank_drift straggler same_data_on_ranks stale_batchnorm rate_x30",
            "rank_drift same_data_on_ranks hang straggler unshuffled labels_shuffled",
        ),
    ),
)
