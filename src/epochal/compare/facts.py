"""What can make one run differ from another: the facts of a run, and how much each can change.

Config, code, data, packages and hardware are facts by name; the metric and the learning rate are
series; findings say what the rules saw. A weight is between 0 (cannot change training)
and 1: how much a difference can change a metric, before anything else is known.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import msgspec

from epochal.compare.groups import repeat_keys, series_or_none
from epochal.errors import MetricNotFoundError
from epochal.health.data_window import DataWindow, SampleSet, number, window_of
from epochal.health.finding import Finding, is_more_severe
from epochal.health.observation import Observation
from epochal.journal.entries import Entry
from epochal.journal.metrics import Metric
from epochal.journal.row import RunRow
from epochal.records.values import as_float, flat_items
from epochal.series.series import Series
from epochal.store.comparison import MISSING
from epochal.store.lookup import near_names
from epochal.store.metrics import by_importance, resolve
from epochal.store.row import latest_findings
from epochal.store.run import RunView

# fmt: off
Area = Literal[
    "config", "schedule", "code", "command", "model", "optimizer", "data", "labels", "packages",
    "hardware", "progress", "findings",
]
# Those that are compared with each other, by name or by content.
FACT_AREAS: tuple[Area, ...] = (
    "config", "code", "command", "model", "optimizer", "data", "labels", "packages", "hardware",
)
# fmt: on
# Below this, a difference does not change training in any way that would be seen.
NEGLIGIBLE = 0.2
# Whether two runs have the same seed, as far as they recorded one.
Seeds = Literal["equal", "different", "unknown"]

_DATASET_FIELDS = ("files", "tokens", "seed")
_PATCH_FILE = re.compile(rb"^diff --git a/.* b/(.*)$", re.MULTILINE)

_USUAL_WORDS = frozenset(
    "lr rate optimizer optim batch wd weight decay momentum beta beta1 beta2 betas eps schedule"
    " scheduler warmup warm model arch architecture dim hidden depth layers layer heads head width"
    " channels dropout epochs steps iters init loss dtype precision amp fp16 bf16 clip accum"
    " accumulation augment augmentation dataset data tokenizer seq length context vocab norm"
    " activation temperature gamma size train pretrained frozen freeze lora rank alpha"
    " objective smoothing ema mixup".split()
)
# Whatever else is in the key.
_SILENT_WORDS = frozenset("workers worker log logging save saves wandb verbose debug".split())
# Unless the key is about something that matters, such as ``model_name``.
_QUIET_WORDS = frozenset(
    "name dir path folder output port device host project notes tags tracker prefetch pin every"
    " interval console report cache id checkpoint checkpoints".split()
)
_PACKAGES = frozenset(
    "torch numpy jax jaxlib flax optax tensorflow keras transformers tokenizers datasets accelerate"
    " deepspeed lightning pytorch-lightning torchvision torchaudio triton flash-attn xformers"
    " bitsandbytes peft trl apex timm scikit-learn xgboost lightgbm catboost scipy diffusers"
    " torchao torchtitan megatron-core transformer-engine monai ray gymnasium".split()
)
_PACKAGE_STARTS = ("nvidia-", "cuda-", "jax-", "torch")
_DOCUMENTS = (".md", ".rst", ".txt", ".ipynb", ".gitignore", ".toml", ".lock", ".cfg")
_HARDWARE = {
    "processes": (0.6, "More processes make a larger global batch unless each one has less."),
    "GPUs": (0.25, "Other GPUs round differently and may use other kernels."),
    "Python": (0.05, "Another Python does not change what is computed."),
}
_MODEL = {
    "trainable parameters": (
        0.8,
        "Only trainable parameters change: others are frozen, with requires_grad set to False.",
    )
}

# Fewer hashes of samples say too little about a share, and fewer labels about theirs.
_FEWEST_HASHES, _FEWEST_LABELS = 20, 100
_LEAST_SHARED = 0.9
# Of the larger deviation, of all labels, and of all positions.
_LEAST_SHIFT, _LEAST_LABELS, _LEAST_PADDING = 0.1, 0.1, 0.05
# Of the samples that both runs saw: fewer other labels are a few that somebody corrected.
_LEAST_RELABELLED = 0.02

# Findings that name a mistake in the program or its data. A run of 0.2.0 does not say of its
# findings how certain they are.
_FAULTS = frozenset(
    "data-labels data-leak data-order data-repeated data-values double-softmax eval-mode"
    " gradients-add-up untrained-parameters".split()
)
# What is certain and yet shows only what came of a run.
_OUTCOMES = frozenset(
    "alert-failed condition crashed failed log-order nonfinite out-of-memory silent-run"
    " terminated".split()
)


class DataDifference(NamedTuple):
    """A difference in watched data: both values, and the weight with its reason."""

    area: Area
    key: str
    values: Sequence[Any]
    weight: float
    reason: str


class RunFacts(msgspec.Struct, frozen=True, eq=False):
    """Everything about one run that may explain its metric.

    An area that the run says nothing about is not in ``facts``. ``curve`` is the metric, ``rates``
    the learning rate by step. ``findings`` has the gravest of each rule, from the first step of
    any; None where they were not read. ``faults`` are the rules among them that named a mistake in
    the program or its data. ``splits`` has the first epoch of the watched data loaders.
    """

    info: RunRow
    facts: Mapping[Area, Mapping[str, Any]]
    metric: Metric | None
    curve: Series | None
    rates: Series | None
    findings: Mapping[str, Finding] | None
    splits: Mapping[str, Sequence[DataWindow]]
    faults: frozenset[str] = frozenset()


def common_metric(metrics: Sequence[Sequence[Metric]], name: str | None = None) -> str:
    """The metric to explain: the named one, else the evaluation loss, else the loss.

    Without a loss, the first metric of all runs with a known goal. Raises ``MetricNotFoundError``.
    """
    if name is not None:
        if any(resolve(name, own) is None for own in metrics):
            hint = near_names(name, (metric.name for own in metrics for metric in own))
            raise MetricNotFoundError(f"not every one of these runs has logged {name!r}.{hint}")
        return name
    for role in ("eval_loss", "loss"):
        if all(any(one.role == role for one in own) for own in metrics):
            return role
    for metric in by_importance(metrics[0]):
        is_shared = all(any(one.name == metric.name for one in own) for own in metrics[1:])
        if metric.goal is not None and metric.axis != "time" and is_shared:
            return metric.name
    raise MetricNotFoundError(
        "these runs share no metric whose goal is known: name one, or declare it with"
        " run.define(name, goal='min')."
    )


def read_facts(run: RunView, metric: str, *, with_findings: bool = True) -> RunFacts:
    """Read a run; ``metric`` may be a role."""
    curve = series_or_none(run, metric)
    rates = series_or_none(run, "lr") if run.role("lr") is not None else None
    told = run.facts
    packages = told.get("packages")
    entries = run.findings() if with_findings else []
    facts: dict[Area, dict[str, Any]] = {
        "config": dict(flat_items(run.config)),
        "code": _code(run),
        "command": _command(told.get("command")),
        **_watched_facts(run),
        "data": _datasets(run),
        "packages": dict(packages) if isinstance(packages, Mapping) else {},
        "hardware": _hardware(run),
    }
    return RunFacts(
        info=run.info,
        facts={area: own for area, own in facts.items() if own},
        metric=run.metric(metric),
        curve=curve or None,
        rates=rates if rates and rates.x == "step" else None,
        findings=_findings(entries) if with_findings else None,
        splits=_first_epochs(run.entries("data")),
        faults=frozenset(_fault_rules(entries)),
    )


def _fault_rules(entries: Iterable[Entry]) -> Iterator[str]:
    """The rules of warnings and errors that name a mistake in the program or its data."""
    for record in (entry.record for entry in entries):
        rule = str(record.get("rule"))
        is_certain = record.get("certainty") == "fact" and rule not in _OUTCOMES
        if record.get("severity") != "info" and (rule in _FAULTS or is_certain):
            yield rule


def task_of(run: RunView, metric: str) -> str:
    """What a run trains, as one text: its program, its data and the metric that is compared.

    Runs of one configuration are repeats only within a task.
    """
    named, own = run.metric(metric), dict[str, Any]()
    for name, windows in _first_epochs(run.entries("data")).items():
        own[name] = [windows[0].text("dataset").rpartition("-")[0], _dataset_size(windows[0])]
    data = {key: one for key, one in _datasets(run).items() if not is_repeat(key)}
    program = _program(run.facts.get("command"))
    return json.dumps([program, named and named.name, data, own], sort_keys=True, default=str)


def _program(command: Any) -> str | None:
    """The script or module of a command, without its options."""
    if not isinstance(command, Sequence) or isinstance(command, str):
        return None
    parts = [one for one in map(str, command[1:]) if one != "-m"]
    return parts[0] if parts and not parts[0].startswith("-") else None


def _dataset_size(window: DataWindow) -> int:
    return window.count("dataset_samples")


def _code(run: RunView) -> dict[str, Any]:
    git = run.facts.get("git")
    if not isinstance(git, Mapping) or not isinstance(git.get("commit"), str):
        return {}
    patch = run.patch() if git.get("dirty") else b""
    changes = _patch_text(patch) if patch else "none"
    if git.get("dirty") and not patch:  # the patch of a run on a hub stays where the run was made
        changes = f"not stored here ({str(git.get('patch_sha256', 'unknown'))[:8]})"
    return {"commit": git["commit"][:12], "uncommitted changes": changes}


def code_of(run: RunView) -> str:
    """The commit and the changes that were not committed, as one text; empty if not known."""
    return json.dumps(_code(run))


def _patch_text(patch: bytes) -> str:
    """The files of a patch with the number of lines added and removed, and a hash of it."""
    _, *parts = _PATCH_FILE.split(patch)
    files = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        lines = text.split(b"\n")
        added = sum(line.startswith(b"+") and not line.startswith(b"+++ ") for line in lines)
        removed = sum(line.startswith(b"-") and not line.startswith(b"--- ") for line in lines)
        files.append(f"{name.decode('utf-8', 'replace')} +{added} -{removed}")
    return f"{', '.join(files)} ({hashlib.sha256(patch).hexdigest()[:8]})"


def _command(command: Any) -> dict[str, Any]:
    """The program and its options; the interpreter and its folder say nothing of the training."""
    if not isinstance(command, Sequence) or isinstance(command, str) or len(command) < 2:
        return {}
    return {"arguments": " ".join(map(str, command[1:]))}


def _watched_facts(run: RunView) -> dict[Area, dict[str, Any]]:
    """What a watched model and its first optimizer are, as the first event of each says."""
    first: dict[str, Mapping[str, Any]] = {}
    for record in (entry.record for entry in run.entries("event")):
        first.setdefault(str(record.get("name")), record)
    own, other = first.get("model", {}), first.get("optimizer", {})
    model = {name: own[name] for name in ("parameters", "elements") if name in own}
    if "trainable" in own:
        model["trainable parameters"] = own["trainable"]
    optimizer = {"class": other["optimizer"]} if "optimizer" in other else {}
    groups = other.get("groups")
    for place, group in enumerate(groups if isinstance(groups, list) else ()):
        of_group = f" of group {place}" if place else ""
        items = group.items() if isinstance(group, dict) else ()
        optimizer |= {f"{name}{of_group}": one for name, one in items if name != "elements"}
    return {"model": model, "optimizer": optimizer}


def _datasets(run: RunView) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in run.entries("dataset"):
        record, split = entry.record, str(entry.record.get("split") or "data")
        found |= {f"{split} {name}": record[name] for name in _DATASET_FIELDS if name in record}
        if names := record.get("names"):
            text = json.dumps(sorted(map(str, names)))
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            found[f"{split} names"] = f"{len(names)} paths ({digest})"
    return found


def _hardware(run: RunView) -> dict[str, Any]:
    models = [entry.record for entry in run.entries("gpu-model", rank=None)]
    unique = {one.get("uuid") or (one.get("rank"), one.get("id")): one for one in models}
    counted = Counter(str(one.get("name")) for one in unique.values())
    drivers = sorted({str(one["cuda_driver"]) for one in models if "cuda_driver" in one})
    names = {"processes": "world_size", "CPUs": "cpu_count"}
    names |= {"Python": "python", "platform": "platform", "host": "host"}
    found = {
        "GPUs": ", ".join(f"{count} × {name}" for name, count in sorted(counted.items())) or None,
        "CUDA driver": ", ".join(drivers) or None,
        **{title: run.facts.get(name) for title, name in names.items()},
    }
    return {name: value for name, value in found.items() if value is not None}


def _findings(entries: Iterable[Entry]) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for one in latest_findings(((0, entry.record) for entry in entries), attempts=0):
        gravest = before = found.get(one.rule, one)
        if is_more_severe(one.severity, before.severity):
            gravest = one
        steps = [each for each in (before.steps, one.steps) if each is not None]
        found[one.rule] = replace(gravest, steps=min(steps, default=None))
    return found


# -- watched data ---------------------------------------------------------------------------------


def _first_epochs(entries: Iterable[Entry]) -> dict[str, list[DataWindow]]:
    """The first recorded epoch of each split: runs of other lengths have more epochs, or fewer."""
    splits: dict[str, list[DataWindow]] = {}
    for entry in entries:
        seen = Observation("data", None, 0.0, entry.rank, "", {}, {}, entry.record)
        if (window := window_of(seen)) is not None:
            splits.setdefault(window.name, []).append(window)
    first = {name: min(one.epoch for one in windows) for name, windows in splits.items()}
    return {
        name: [one for one in windows if one.epoch == first[name]]
        for name, windows in splits.items()
    }


def data_differences(left: RunFacts, right: RunFacts) -> Iterator[DataDifference]:
    """Where the splits that both runs watched differ."""
    seeds = _seeds(left, right)
    for name, windows in left.splits.items():
        if name in right.splits:
            for one in _split_differences((windows, right.splits[name]), seeds):
                yield one._replace(key=f"{name} {one.key}".rstrip())


def compared_data(left: RunFacts, right: RunFacts) -> Iterator[Area]:
    """What of the watched data both runs recorded well enough to call it equal.

    Sizes and moments alone do not show that two runs had the same samples.
    """
    for name, windows in left.splits.items():
        if name in right.splits:
            sides = (windows, right.splits[name])
            contents = _Contents.of(sides)
            if contents.least >= _FEWEST_HASHES and (
                contents.is_complete or contents.shared >= _LEAST_SHARED
            ):
                yield "data"
            own, other = map(_labels_by_sample, sides)
            if len(own.keys() & other.keys()) >= _FEWEST_HASHES:
                yield "labels"


def _seeds(left: RunFacts, right: RunFacts) -> Seeds:
    configs = [one.facts.get("config", {}) for one in (left, right)]
    keys = repeat_keys([*dict.fromkeys(key for own in configs for key in own)])
    if not keys:
        return "unknown"
    same = all(configs[0].get(key) == configs[1].get(key) for key in keys)
    return "equal" if same else "different"


def _split_differences(
    sides: Sequence[Sequence[DataWindow]], seeds: Seeds
) -> Iterator[DataDifference]:
    first = [side[0] for side in sides]
    sizes = [_dataset_size(one) for one in first]
    classes = [one.text("dataset").rpartition("-")[0] for one in first]
    samplers = [one.text("sampler") for one in first]
    more, other, chosen = (
        "The datasets have different numbers of samples.",
        "The datasets are of different classes.",
        "Samples are chosen in another way, such as unshuffled.",
    )
    given = [
        DataDifference("data", "dataset size", sizes, 0.8, more),
        DataDifference("data", "dataset class", classes, 0.6, other),
        DataDifference("data", "sampler", samplers, 0.6, chosen),
    ]
    yield from (one for one in given if all(one.values) and one.values[0] != one.values[1])
    yield from _content_differences(sides, seeds)
    yield from _input_differences(sides)
    yield from _label_differences(sides)
    nonfinite = [sum(one.count("nonfinite_samples") for one in side) for side in sides]
    if bool(nonfinite[0]) != bool(nonfinite[1]):
        reason = "Inputs that are not finite spoil every step that sees them."
        yield DataDifference("data", "samples not finite", nonfinite, 0.85, reason)
    padding = [_mean(side, "padding") for side in sides]
    if abs((padding[0] or 0.0) - (padding[1] or 0.0)) > _LEAST_PADDING:
        reason = "Another share of the positions is padding."
        yield DataDifference("data", "padding", padding, 0.4, reason)


def _label_differences(sides: Sequence[Sequence[DataWindow]]) -> Iterator[DataDifference]:
    """Labels sample by sample, and where the samples are others, the shares of the labels."""
    own, other = map(_labels_by_sample, sides)
    common = own.keys() & other.keys()
    if len(common) >= _FEWEST_HASHES:
        changed = sum(own[one] != other[one] for one in common) / len(common)
        if changed >= _LEAST_RELABELLED:
            reason = (
                f"{changed:.0%} of the {len(common)} sampled inputs that both runs saw have"
                " different labels in the two runs."
            )
            texts = [_sample_text(each, common) for each in (own, other)]
            # A few corrected labels change little; labels at random change what can be learned.
            yield DataDifference("labels", "", texts, 0.3 + 0.65 * min(1.0, 4 * changed), reason)
        return
    labels = [sum((Counter(one.labels) for one in side), Counter[str]()) for side in sides]
    totals = [own.total() for own in labels]
    if min(totals) >= _FEWEST_LABELS:
        # Half of the differences between the shares: 0 for equal ones, 1 for disjoint ones.
        apart = 0.5 * sum(
            abs(labels[0][label] / totals[0] - labels[1][label] / totals[1])
            for label in {*labels[0], *labels[1]}
        )
        if apart > _LEAST_LABELS:
            reason = f"{apart:.0%} of the labels would have to change to make the shares equal."
            yield DataDifference("labels", "", [*map(_label_text, labels)], 0.7, reason)


def _labels_by_sample(windows: Sequence[DataWindow]) -> dict[int, int]:
    """The label of each sampled content; contents that had several labels are left out."""
    labels: dict[int, int] = {}
    several = set[int]()
    for hashed, label in (pair for window in windows for pair in window.labelled()):
        if labels.setdefault(hashed, label) != label:
            several.add(hashed)
    return {hashed: label for hashed, label in labels.items() if hashed not in several}


def _sample_text(labels: Mapping[int, int], chosen: Iterable[int]) -> str:
    """The labels of some samples, with a hash that is equal for equal labels."""
    pairs = sorted((one, labels[one]) for one in chosen)
    digest = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()[:8]
    return f"{len({label for _, label in pairs})} labels ({digest})"


class _Contents(NamedTuple):
    """Contents of two splits by their hashes, which are kept by value.

    The same sample is kept in both runs. ``shared`` is the share of the smaller side's hashes that
    the other side has too. ``is_complete``: both epochs went through their whole dataset.
    """

    of_left: int
    of_right: int
    shared: float
    is_complete: bool

    @property
    def least(self) -> int:
        """How many hashes the smaller side has."""
        return min(self.of_left, self.of_right)

    @classmethod
    def of(cls, sides: Sequence[Sequence[DataWindow]]) -> _Contents:
        """Compare two sides."""
        kept = [SampleSet(), SampleSet()]
        for own, side in zip(kept, sides, strict=True):
            for one in side:
                own.add(one.hashes, one.hash_bits, is_index=False)
        common, of_left = kept[0].common(kept[1], is_index=False)
        _, of_right = kept[1].common(kept[0], is_index=False)
        least = min(of_left, of_right)
        # Two short samples of a large dataset have different contents.
        is_complete = all(
            0 < _dataset_size(side[0]) <= sum(one.samples for one in side) for side in sides
        )
        return cls(of_left, of_right, len(common) / least if least else math.nan, is_complete)


def _content_differences(
    sides: Sequence[Sequence[DataWindow]], seeds: Seeds
) -> Iterator[DataDifference]:
    """Samples by their contents, or else the order of the same samples."""
    found = _Contents.of(sides)
    if found.least >= _FEWEST_HASHES and found.is_complete and found.shared < _LEAST_SHARED:
        shares = f"{found.shared:.0%} of {found.least} sampled contents of the first epoch are in"
        reason = f"{shares} both runs. Random augmentation changes contents too."
        weight = 0.45 + 0.35 * (1 - found.shared)
        if seeds == "different":
            weight, reason = 0.1, f"{shares} both runs: another seed draws other samples."
        elif seeds == "unknown" and not found.shared:
            weight = 0.35
            reason = f"{shares} both runs. No seed is recorded, so chance may have drawn them."
        texts = f"{found.of_left} hashes", f"{found.of_right} hashes"
        yield DataDifference("data", "contents", texts, weight, reason)
        return
    orders = [{batch: order for one in side for batch, _, order in one.orders()} for side in sides]
    last = max(orders[0].keys() & orders[1].keys(), default=None)
    if last is not None and orders[0][last] != orders[1][last]:
        digests = [f"{own[last] & 0xFFFFFFFF:08x}" for own in orders]
        reason = "Another order of the same samples is noise, as another seed is."
        yield DataDifference("data", "order", digests, 0.1, reason)


def _input_differences(sides: Sequence[Sequence[DataWindow]]) -> Iterator[DataDifference]:
    means, deviations = ([_mean(side, name) for side in sides] for name in ("mean", "std"))
    known = [one for one in (*means, *deviations) if one is not None]
    if len(known) < 4:
        return
    least = _LEAST_SHIFT * max(known[2:])
    if least > 0 and max(abs(known[0] - known[1]), abs(known[2] - known[3])) > least:
        texts = [f"mean {known[i]:.3g}, deviation {known[i + 2]:.3g}" for i in (0, 1)]
        reason = "Inputs are on another scale: look at normalisation."
        yield DataDifference("data", "inputs", texts, 0.85, reason)


def _label_text(labels: Counter[str]) -> str:
    most = (f"{label} {count / labels.total():.0%}" for label, count in labels.most_common(3))
    return f"{len(labels)} labels: {', '.join(most)}"


def _mean(windows: Sequence[DataWindow], name: str) -> float | None:
    """The mean over records, by their numbers of samples."""
    found = [(number(one.record.get(name)), max(1, one.samples)) for one in windows]
    known = [(value, weight) for value, weight in found if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


# -- weights --------------------------------------------------------------------------------------


def weigh(area: Area, key: str, left: Any, right: Any) -> tuple[float, str]:
    """The weight of a difference between two values, and why it has that weight."""
    if area == "config":
        return _weigh_config(key, left, right)
    if area == "code":
        return _weigh_code(key, left, right)
    if area == "model":
        return _MODEL.get(key, (0.6, "The models are of different sizes."))
    if area == "optimizer":
        return _weigh_optimizer(key, left, right)
    if area == "command":
        return 0.3, "The programs were started with different arguments."
    if area == "data" and is_repeat(key):
        return 0.1, "Another order of the same data is noise, as another seed is."
    if area == "data":
        return 0.8, "Another training set gives another result."
    if area == "packages":
        return _weigh_package(key, left, right)
    return _HARDWARE.get(key, (0.02, "This does not change what is computed."))


def is_repeat(key: str) -> bool:
    """Whether a difference only repeats an experiment, as a seed or an order of samples does."""
    return bool(repeat_keys([key])) or key.endswith(" order")


def is_rate(key: str) -> bool:
    """Whether a key of the config is about the learning rate."""
    return bool({"lr", "rate", "warmup", "schedule", "scheduler"} & _words_of(key))


def _words_of(key: str) -> set[str]:
    """The words of a key: ``optim.weightDecay`` has optim, weight and decay."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", key)
    return set(re.findall(r"[a-z0-9]+", spaced.lower()))


def _weigh_config(key: str, left: Any, right: Any) -> tuple[float, str]:
    words = _words_of(key)
    is_usual = bool(words & _USUAL_WORDS)
    if is_repeat(key):
        return 0.1, "A seed repeats an experiment and explains no more than noise."
    if words & _SILENT_WORDS or (words & _QUIET_WORDS and not is_usual):
        return 0.05, "Keys like this do not change training."
    known = "Keys like this usually change the result" if is_usual else "What the key does is open"
    strength, change = 1.0, ""
    if any(isinstance(one, str) and one == MISSING for one in (left, right)):
        strength, change = 0.8, "; only one run sets it"
    elif all(type(one) in (int, float) for one in (left, right)):
        ratio = as_float(left) / as_float(right) if as_float(right) else 0.0
        if 0 < ratio < math.inf:
            ratio = max(ratio, 1 / ratio)
            strength = 0.5 + 0.5 * min(1.0, math.log2(ratio))
            change = f", and this one differs by a factor of {ratio:.3g}"
    return (0.85 if is_usual else 0.5) * strength, f"{known}{change}."


def _weigh_optimizer(key: str, left: Any, right: Any) -> tuple[float, str]:
    if key == "class":
        return 0.8, "Another optimizer takes other steps."
    if key.startswith("parameters"):
        return 0.8, "An optimizer changes only the parameters that it was given."
    weight, _ = _weigh_config(key, left, right)
    return weight, "The optimizer was given another value, whatever the configuration says."


def _weigh_code(key: str, left: Any, right: Any) -> tuple[float, str]:
    if key == "commit":
        return 0.5, f"The code is of another commit: 'git diff {left} {right}' shows what changed."
    # The files that ``_patch_text`` names.
    files = re.findall(r"(?:^|, )(\S+) \+\d+ -\d+", f"{left}, {right}")
    if files and all(file.endswith(_DOCUMENTS) or "test" in file for file in files):
        return 0.05, "The changes that were not committed touch no code of the training."
    return 0.55, "The changes that were not committed differ; see the patch of each run."


def _weigh_package(name: str, left: Any, right: Any) -> tuple[float, str]:
    is_computing = name in _PACKAGES or name.startswith(_PACKAGE_STARTS)
    if not is_computing or name == "nvidia-ml-py":
        return 0.03, "A package like this does not compute in training."
    if MISSING in (left, right):
        return 0.05, "Only one side has it installed; nothing says that the training uses it."
    versions = [str(one).split("+")[0].split(".") for one in (left, right)]
    if versions[0][:2] == versions[1][:2]:
        return 0.25, "The training computes with it; the versions differ in the last place."
    return 0.35, "The training computes with it."
