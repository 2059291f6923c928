"""A model that is no better than an answer that does not read the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from statistics import fmean

from epochal.health.context import Context, accuracy_of, is_accuracy
from epochal.health.data_window import DATA_KINDS, are_unrelated, associations, numbers, window_of
from epochal.health.finding import INPUTS_REACH_THE_OUTPUT
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, RuleThresholds, Verdict

# What an answer without the inputs is, what it reaches, and the range that is no better.
_Baseline = tuple[str, float, float, float]
# What the best constant answer costs: as cross entropy, or as squared error.
_COSTS = ("entropy", "variance")
_FIRST = 4  # evaluations whose mean is that of the beginning, and of now


class NoBetterThanBaseline(Rule):
    """The model is no better than one that does not read its inputs.

    Evaluations stay where an answer without the inputs is: the mean, or the frequent class.

    Some models start so and learn late. They are not reported while their training loss falls or
    the learning rate still warms up.
    """

    name = "no-better-than-baseline"
    group = "evaluation"
    certainty = "inferred"
    healthy = "Better than always predicting the mean, the most frequent class, or a guess."
    reports = {
        "warning": (
            "{evals} evaluations in a row have the loss of the best constant answer, or the "
            "accuracy of the most frequent class or of a guess. The training loss has {points} "
            "points and does not fall. It takes {patient} evaluations if the training loss falls "
            "or if `watch_data` shows that targets depend on inputs. Or {patient} evaluations have "
            "not become better than the first ones."
        )
    }
    needs = (
        "Evaluations, and a baseline: `epochal.watch_data(loader)`, or the number of classes in "
        "the configuration (`num_classes`, `num_labels`) or in the last layer of a watched model."
    )
    symptom_of = frozenset({"lost values", "divergence", "standstill", "poor evaluation"})
    kinds = frozenset({"eval", "metrics", "epoch"}) | DATA_KINDS
    every_rank = False
    messages = {
        "baseline": Message(
            "{metric} is {value} after {evaluations} evaluations, no better than {what} "
            "({baseline}): the model has learned nothing about the targets from its inputs.",
            "Check that labels belong to their inputs (not shuffled apart), that inputs are scaled "
            "to about 1, that optimizer.step() is called with these parameters and a learning rate "
            f"that is not too small, and {INPUTS_REACH_THE_OUTPUT}",
        )
    }

    class Thresholds(RuleThresholds):
        evals: int = 3
        patient: int = 14
        points: int = 100
        near: float = 0.03

    thresholds: Thresholds

    def reset(self) -> None:
        """A new process evaluates and reads its data again."""
        self._values: dict[str, list[tuple[int | None, float]]] = {}
        # Of the whole run, where the newest values are bounded.
        self._first: dict[str, list[float]] = {}
        self._lowest: dict[str, float] = {}
        # The spread of the targets by whether they are of training, and the one that counts.
        self._spreads: dict[bool, dict[str, float]] = {}
        self._targets: dict[str, float] = {}
        self._is_related = False  # whether the targets of training depend on the inputs

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Note what is known of the data; check every evaluation."""
        if observation.kind in DATA_KINDS:
            targets = numbers(observation.record, "targets")
            # A model that learns rare classes is near the best constant answer for long.
            is_rare = 0 < targets.get("entropy", 0.0) < 0.5 * math.log(targets.get("classes", 2.0))
            window = window_of(observation)
            if window is not None and targets and not is_rare:
                self._spreads[window.is_training] = targets
                self._targets = self._spreads.get(False, targets) if True in self._spreads else {}
                own = associations(window, 24) if window.is_training else {}
                self._is_related = not are_unrelated(own) if own else self._is_related
        elif observation.evaluations and context.family.loss_falls and not context.is_resumed:
            loss, classes, names = context.role_names.get("eval_loss"), context.num_classes, []
            for name, value in observation.evaluations.items():
                share = value if name == loss else accuracy_of(value, classes)
                is_known = share is not None and math.isfinite(value)
                if share is not None and is_known and (name == loss or is_accuracy(name)):
                    values = self._values.setdefault(name, [])
                    values.append((observation.step, share))
                    del values[: -4 * self.thresholds.patient]
                    first = self._first.setdefault(name, [])
                    first += [share] if len(first) < _FIRST else []
                    self._lowest[name] = min(share, self._lowest.get(name, share))
                    names.append(name)
            # The loss first: it tells a model that learns rare classes from a constant answer.
            names.sort(key=lambda name: name != loss)
            return self._judge(names, loss, classes or 0, context)
        return ()

    def _judge(
        self, names: list[str], loss: str | None, classes: int, context: Context
    ) -> Iterator[Verdict]:
        """Return one verdict on all metrics of an evaluation; none if it is not known."""
        limits, is_better, subject = self.thresholds, False, loss or "".join(names[:1])
        is_open = context.is_open(self.name, subject)
        for name in names:
            values = [value for _, value in self._values[name]]
            of = self._of_loss if name == loss else self._of_share
            known = of(name, values, classes)
            for what, value, lowest, highest in known:
                outside = (n for n, v in enumerate(reversed(values)) if not lowest <= v <= highest)
                count = next(outside, len(values))  # of evaluations in a row
                needed = limits.evals if self._is_certain(context) else limits.patient
                is_long = count >= (1 if is_open else needed)
                if is_long and not (name == loss and _falls(values[-needed:], 0.005)):
                    first, last = self._values[name][-count][0], self._values[name][-1][0]
                    yield self.found(
                        "baseline",
                        subject,
                        steps=None if first is None or last is None else (first, last),
                        words={"metric": name, "what": what},
                        extent=needed,
                        value=values[-1],
                        baseline=value,
                        evaluations=count,
                    )
                    return
                is_better |= values[-1] < lowest if name == loss else values[-1] > highest
            if is_better and self._targets:
                break
        if is_better:
            yield Verdict(subject, False)

    def _is_certain(self, context: Context) -> bool:
        """Return True if nothing suggests that the model will start to learn by itself."""
        train = context.curves.get("loss")
        if train is None or train.count < self.thresholds.points:
            return False
        levels = [block.level for block in train.blocks.all()]
        is_rising, rate, first = False, context.rate, context.first_step or 0
        if rate.peak_since is not None and not rate.began_at_peak(0.5):
            # A warm-up, and as many steps after it.
            is_rising = (context.step or 0) - first < 2 * (rate.peak_since - first)
        is_falling = _falls(levels[len(levels) // 3 :], 0.003)
        return not is_rising and not is_falling and not self._is_related

    def _of_loss(self, name: str, losses: list[float], classes: int) -> Iterator[_Baseline]:
        near = self.thresholds.near
        for cost in (self._targets[one] for one in _COSTS if self._targets.get(one, 0) > 0):
            what = "always predicting the average target"
            yield what, cost, (1 - near) * cost, (1 + 2 * near) * cost
        if not self._targets and classes > 1:
            guess = math.log(classes)
            what = f"guessing among {classes:,} classes"
            yield what, guess, (1 - near / 3) * guess, (1 + 2 * near) * guess
        first = self._first[name]
        if len(losses) >= self.thresholds.patient and self._lowest[name] > 0.96 * first[0] > 0:
            level = fmean(first)
            if fmean(losses[-_FIRST:]) > 0.99 * level:
                yield "the first evaluations", level, 0.96 * level, 1.15 * level

    def _of_share(self, name: str, shares: list[float], classes: int) -> Iterator[_Baseline]:
        majority, first = self._targets.get("majority", 0.0), self._first[name][0]
        if majority > 0:
            yield "always predicting the most frequent class", majority, 0.0, majority + 0.02
        elif classes > 1:
            chance, room = 1 / classes, min(0.03, 0.5 / classes)
            yield f"guessing among {classes:,} classes", chance, chance - room, chance + room
        elif max(*shares, first) - min(*shares, first) < 1e-3 and 0.01 < first < 0.95:
            yield "the first evaluation", first, first - 1e-3, first + 1e-3


def _falls(values: list[float], share: float) -> bool:
    """Return True if the second half of some values is clearly below the first half."""
    half = len(values) // 2
    if not half:
        return False
    before, now = fmean(values[:half]), fmean(values[-half:])
    squares = sum((v - before) ** 2 for v in values[:half]) + sum(
        (v - now) ** 2 for v in values[-half:]
    )
    error = math.sqrt(squares / max(1, half - 1) / half)
    return before - now > max(3 * error, share * abs(before))
