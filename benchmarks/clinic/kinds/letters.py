"""Letters: sites in DNA where genes are spliced, and the next note of a melody."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.reading import drawn
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

# A window of DNA around a position; letters are A, C, G and T.
BASES, STRAND, SITES = 4, 40, 3
MIDDLE = STRAND // 2
# How often each letter stands beside the border of an exon, in hundredths: a donor has three
# letters before the border and six after it, an acceptor four before it and one after it.
DONOR = (
    *((34, 36, 18, 12), (60, 13, 13, 14), (9, 4, 80, 7), (0, 0, 100, 0), (0, 0, 0, 100)),
    *((52, 3, 42, 3), (71, 8, 12, 9), (7, 6, 81, 6), (16, 17, 21, 46)),
)
ACCEPTOR = ((25, 25, 25, 25), (6, 64, 1, 29), (100, 0, 0, 0), (0, 0, 100, 0), (25, 14, 49, 12))
BRANCH = (1, 3, 0, 0, 1)  # CTAAC, before an acceptor
SURE = 0.94  # of labels


def strands(count: int) -> Split:
    """Windows of DNA as four rows, and whether the middle is a donor, an acceptor or neither.

    Exons prefer other letters at each place of a codon, introns other pairs. Windows that are
    neither have the two letters of a site too, and often a part of what is around them.
    """
    codons = (0.7 * torch.randn(3, BASES)).softmax(1)
    pairs = (0.6 * torch.randn(BASES, BASES)).softmax(1)
    phase = torch.randint(3, (count, 1)) + torch.arange(STRAND)
    exon = drawn(codons, phase % 3)
    letters = [torch.randint(BASES, (count,))]
    for _ in range(STRAND - 1):
        letters.append(drawn(pairs, letters[-1]))
    intron = torch.stack(letters, 1)
    label = torch.multinomial(torch.tensor([0.25, 0.25, 0.5]), count, replacement=True)
    like = torch.where(label < 2, label, torch.randint(2, (count,)))  # which of the two it recalls
    real = (label < 2).unsqueeze(1)
    before = torch.arange(STRAND) < MIDDLE
    genes = torch.where(before == (like == 0).unsqueeze(1), exon, intron)
    alone = torch.where(torch.rand(count, 1) < 0.5, exon, intron)
    dna = torch.where(real | (torch.rand(count, 1) < 0.2), genes, alone)
    for site, table, first in ((0, DONOR, MIDDLE - 3), (1, ACCEPTOR, MIDDLE - 4)):
        chances = torch.tensor(table, dtype=torch.float)
        places = torch.arange(first, first + len(table))
        drawn_site = drawn(chances / 100, torch.arange(len(table)).expand(count, -1))
        kept = real | (chances.amax(1) == 100) | (torch.rand(count, len(table)) < 0.55)
        kept = kept & (like == site).unsqueeze(1)
        dna[:, places] = torch.where(kept, drawn_site, dna[:, places])
    tract = real & (like == 1).unsqueeze(1) & (torch.rand(count, STRAND) < 0.5)
    tract = tract & (torch.arange(STRAND) >= MIDDLE - 11) & (torch.arange(STRAND) < MIDDLE - 4)
    dna = torch.where(tract, 1 + 2 * torch.randint(2, dna.shape), dna)  # C or T
    at = torch.randint(MIDDLE - 16, (count, 1)) + torch.arange(len(BRANCH))
    has = real[:, 0] & (like == 1) & (torch.rand(count) < 0.8)
    dna[has] = dna[has].scatter(1, at[has], torch.tensor(BRANCH).expand(int(has.sum()), -1))
    said = torch.where(torch.rand(count) < SURE, label, torch.randint(SITES, (count,)))
    return Split(functional.one_hot(dna, BASES).mT.float(), said)


class Splicer(nn.Module):
    """Two convolutions along the strand with BatchNorm, and a layer that knows the places."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()

        def along(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
            turn = nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
            return nn.Sequential(turn, nn.BatchNorm1d(outputs), nn.ReLU(), nn.MaxPool1d(2))

        self.body = nn.Sequential(along(BASES, width, 9), along(width, width, 5), nn.Flatten())
        self.whole = nn.Sequential(nn.Linear(width * STRAND // 4, 32), nn.ReLU(), nn.Dropout(0.15))
        self.head = nn.Linear(32, SITES)

    def forward(self, strand: Tensor) -> Tensor:
        out: Tensor = self.head(self.whole(self.body(strand)))
        return out


class Splices(Classification):
    """Whether a position of DNA is a donor, an acceptor or neither."""

    num_classes = SITES

    def __init__(self) -> None:
        self.train, self.held_out = parted(strands(32_000), 1000)
        self.model = Splicer()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        said, true = (functional.one_hot(one, SITES) for one in (outputs.argmax(1), targets))
        f1 = 2 * (said * true).sum(0) / (said.sum(0) + true.sum(0)).clamp(min=1)
        return {**super().measures(outputs, targets), "sites_f1": float(f1[:2].mean())}


# Notes are of two octaves of a scale; durations are from a sixteenth to a half.
NOTES, LENGTHS, MOTIF, BARS, MOODS = 15, 5, 4, 4, 3
TUNE = MOTIF * BARS


def melodies(count: int) -> Split:
    """Notes and durations of a melody, and the same one later.

    A motif comes again as it was, a step higher or lower, or another one comes. In a motif the
    mood says which note and which duration follow. One note in twelve was played wrong.
    """
    near = -0.45 * (torch.arange(NOTES).view(-1, 1) - torch.arange(NOTES)).abs()
    follow = (near + 1.3 * torch.randn(MOODS, NOTES, NOTES)).softmax(2).flatten(0, 1)
    paces = (1.5 * torch.randn(MOODS, LENGTHS, LENGTHS)).softmax(2).flatten(0, 1)
    mood = torch.randint(MOODS, (count,))
    note, length = torch.randint(NOTES, (count,)), torch.randint(LENGTHS, (count,))
    notes: list[Tensor] = []
    lengths: list[Tensor] = []
    for at in range(TUNE + 1):
        if at % MOTIF == 0:
            again = (torch.rand(count) < 0.7) & (at > 0)
            shift = torch.multinomial(torch.tensor([0.2, 0.5, 0.3]), count, replacement=True) - 1
        fresh = drawn(follow, NOTES * mood + note), drawn(paces, LENGTHS * mood + length)
        old = (notes[at - MOTIF], lengths[at - MOTIF]) if at >= MOTIF else fresh
        note = torch.where(again, (old[0] + shift) % NOTES, fresh[0])
        length = torch.where(again, old[1], fresh[1])
        notes.append(note)
        lengths.append(length)
    played = torch.stack(notes, 1)
    wrong = torch.rand(played.shape) < 1 / 12
    played = torch.where(wrong, torch.randint(NOTES, played.shape), played)
    tune = torch.stack([played, torch.stack(lengths, 1)], 2)
    return Split(tune[:, :-1], tune[:, 1:])


class Melodist(nn.Module):
    """A gated recurrent unit over notes and durations, and chances for the next of both."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.notes, self.lengths = nn.Embedding(NOTES, 20), nn.Embedding(LENGTHS, 8)
        self.beats = nn.Embedding(MOTIF, 8)
        self.cells = nn.GRU(36, width, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, NOTES + LENGTHS)

    def forward(self, tune: Tensor) -> Tensor:
        beat = (torch.arange(tune.shape[1], device=tune.device) % MOTIF).expand(len(tune), -1)
        heard = [self.notes(tune[:, :, 0]), self.lengths(tune[:, :, 1]), self.beats(beat)]
        out: Tensor = self.head(self.drop(self.cells(torch.cat(heard, 2))[0]))
        return out


class Melodies(Task):
    """The next note and its duration, by the sum of two cross entropies."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(melodies(26_500), 500)
        self.model = Melodist()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        note, length = outputs.flatten(0, 1).split([NOTES, LENGTHS], 1)
        right = targets.flatten(0, 1)
        by_note = functional.cross_entropy(note, right[:, 0])
        return by_note + functional.cross_entropy(length, right[:, 1])

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        note, length = outputs.split([NOTES, LENGTHS], 2)
        return {
            "note_accuracy": float((note.argmax(2) == targets[:, :, 0]).float().mean()),
            "duration_accuracy": float((length.argmax(2) == targets[:, :, 1]).float().mean()),
        }

    def leak(self, split: Split) -> None:
        split.inputs = split.targets.clone()  # the tune is not shifted


KINDS = (
    Kind(
        "ddp_splices",
        "blind10",
        Splices,
        (
            OptimizerChoice("nesterov", 0.03, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("nadam", 6e-3, decay="steps"),
        ),
        steps=900,
        batch_size=16,
        clip=5.0,
        num_evals=18,
        world=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"window": STRAND, "classes": ["donor", "acceptor", "none"]},
        faults=(
            "same_data_on_ranks straggler rank_drift double_softmax unshuffled stale_batchnorm "
            "clip_tight fp16_overflow",
            "hang dead_relu nan_input exploding_init one_batch rate_x30 schedule_unit label_leak",
        ),
    ),
    Kind(
        "melodies",
        "blind10",
        Melodies,
        (
            OptimizerChoice("adamw", 0.02, {"weight_decay": 0.01}, decay="linear"),
            OptimizerChoice("momentum", 0.2),
        ),
        steps=900,
        batch_size=16,
        warmup=50,
        num_evals=10,
        typed=False,
        log_every=3,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"notes": NOTES, "durations": LENGTHS, "hidden": 40, "dropout": 0.1},
        faults=(
            "overfitting dropout_in_eval no_warmup frozen missing_step labels_shuffled rate_zero "
            "eval_on_train",
            "rate_x10 rate_too_small wrong_reduction accumulation missing_zero_grad wrong_sign "
            "missing_parameters slow_loader",
        ),
    ),
)
