"""Rules about the data: what ``epochal.watch_data`` records of each loader.

A rule is a table of checks over one record, a ``DataWindow``. A check names its message, when it
holds and its evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from types import MappingProxyType

from epochal.health.context import Context
from epochal.health.data_window import (
    DATA_KINDS,
    DataWindow,
    Epoch,
    Epochs,
    SampleSet,
    is_training,
    label_range,
    number,
    numbers,
    shown,
    whole_numbers,
    window_of,
)
from epochal.health.finding import Severity, times
from epochal.health.observation import Observation
from epochal.health.rule import CONCLUSIVE, Message, Rule, RuleThresholds, Verdict
from epochal.records.format import plural

_MOST_ORDERS = 4096
_MOST_INPUTS = 32


class DataRule(Rule):
    """Gives each record of a loader to the checks, and forgets all of them with a new attempt."""

    group = "data"
    needs = "`epochal.watch_data(loader)`."
    kinds = DATA_KINDS

    def reset(self) -> None:
        """Forget everything: a new process counts its epochs from 1."""
        self.epochs = Epochs()
        # By loader: an epoch, its samples so far, and those of the longest epoch before it.
        self._sizes: dict[tuple[str, int], tuple[int, int, int]] = {}

    def observe(self, observation: Observation, context: Context) -> Iterator[Verdict]:
        """Check one record of a loader; a finding about one rank names it."""
        window = window_of(observation)
        if window is not None:
            self._add_size(window)
        for verdict in () if window is None else self.check(window, context):
            if verdict.active and verdict.subject.endswith(f" of rank {observation.rank}"):
                sentence = f"{verdict.sentence[:-1]}, on {context.rank_name(observation.rank)}."
                evidence = {**verdict.evidence, **context.rank_evidence(observation.rank)}
                verdict = verdict._replace(sentence=sentence, evidence=evidence)
            yield verdict

    def check(self, window: DataWindow, context: Context) -> Iterable[Verdict]:
        """Check one window of a loader."""
        raise NotImplementedError

    def row(
        self,
        holds: bool,
        message: str,
        window: DataWindow,
        about: str = "",
        severity: Severity | None = None,
        words: Mapping[str, str] = MappingProxyType({}),
        extent: float | None = None,
        **evidence: float | int | str,
    ) -> Verdict:
        """Return the verdict of one check; rows with the same ``about`` share their finding.

        Without an ``extent``, as many healthy samples as an epoch has resolve the finding: what is
        wrong with some samples comes back with them in the next epoch.
        """
        subject = window.subject(about or message)
        if not holds:
            return Verdict(subject, False, extent=window.samples if extent is None else extent)
        words = {"name": window.name, "epoch": f"{window.epoch:,}", **words}
        extent = self._epoch_samples(window) if extent is None else extent
        found = self.found(
            message, subject, steps=None, severity=severity, words=words, extent=extent, **evidence
        )
        return found._replace(evidence={k: v for k, v in evidence.items() if v != ""})

    def _add_size(self, window: DataWindow) -> None:
        number, samples, longest = self._sizes.get(window.loader, (window.epoch, 0, 0))
        if number != window.epoch:
            samples, longest = 0, max(samples, longest)
        self._sizes[window.loader] = (window.epoch, samples + window.samples, longest)

    def _epoch_samples(self, window: DataWindow) -> int:
        """Return how many samples an epoch has; as far as is known while the first one lasts."""
        _, samples, longest = self._sizes.get(window.loader, (0, window.samples, 0))
        return longest or max(samples, window.count("dataset_samples"))


class DataValues(DataRule):
    """Inputs are not finite, or constant, as in broken files and empty images.

    Inputs that are not finite, or constant.
    """

    name = "data-values"
    certainty = "fact"
    healthy = "Every input is finite, and its values differ."
    reports = {
        "info": "{constant_share:percent} of the samples are constant, {constant_samples} or more.",
        "warning": (
            "A sample is not finite, or {constant_grave:percent} of them are constant. Or "
            "{features:percent} of the input features have the same value in every sample."
        ),
    }
    release = 3
    messages = {
        "nonfinite": Message(
            "There are values that are not finite in {which} of epoch {epoch} of {name!r} "
            "({share:percent} of those read).",
            "Look at these samples: a file may be broken, or the preparation divides by 0.",
        ),
        "constant": Message(
            "All values are equal in {which} of epoch {epoch} of {name!r} ({share:percent} of "
            "those read).",
            "Look at these samples: they may be empty images or files that cannot be read.",
            "info",
        ),
        "features": Message(
            "{constant_features} of {features} input features of {name!r} never change.",
            "Look at how the inputs are prepared: columns may be empty, or scaled to nothing.",
        ),
    }

    class Thresholds(RuleThresholds):
        constant_share: float = 0.05  # of a record's samples; empty patches are in many datasets
        constant_samples: int = 10
        constant_grave: float = 0.5
        features: float = 0.75  # of all; images have empty borders

    thresholds: Thresholds

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        limits, batches = self.thresholds, window.count("read_batches")
        read = max(1.0, min(1.0, batches / max(1, window.batches)) * window.samples)
        constant, features = window.count("constant_features"), window.count("features")
        if features:
            is_most = constant >= limits.features * features
            yield self.row(
                is_most,
                "features",
                window,
                # Features that change in one sample are not constant.
                extent=None if is_most else CONCLUSIVE,
                constant_features=constant,
                features=features,
            )
        for which in ("nonfinite", "constant") if batches else ():
            samples = window.count(f"{which}_samples")
            share = min(1.0, samples / read)
            is_much = share >= limits.constant_share and samples >= limits.constant_samples
            yield self.row(
                samples > 0 and (which == "nonfinite" or is_much),
                which,
                window,
                severity="warning" if share >= limits.constant_grave else None,
                words={"which": plural(samples, "sample")},
                samples=samples,
                share=share,
                indices=shown(whole_numbers(window.record.get(f"{which}_at"))),
            )


class DataLabels(DataRule):
    """The labels are among the inputs, or they are not the numbers of classes.

    Labels among the inputs, and labels out of range.
    """

    name = "data-labels"
    certainty = "fact"
    healthy = "No single input value gives the label away, and labels are classes of the model."
    reports = {
        "warning": (
            "Some features tell the class or the target in {samples} samples, and the loss has "
            "fallen. Or labels are negative (other than -100) or not below the number of classes."
        )
    }
    needs = "`epochal.watch_data(loader)`, with inputs and labels in each batch."
    causes = frozenset({"implausible results"})
    symptom_of = frozenset({"lost values"})
    every_rank = False
    messages = {
        "answer": Message(
            "The answer is among the inputs of {name!r}: input values {features} (counted from 0) "
            "give the target away in each of {samples} samples.",
            "A model that reads these values knows the target without learning anything. Find out "
            "how it came among the inputs, and remove it.",
        ),
        "range": Message(
            "The labels of {name!r} are between {lowest:plain} and {highest:plain}, but there are "
            "{classes} classes, counted from 0.",
            "Map the labels to 0 and up, with -100 for ignored ones. Check the number of outputs.",
        ),
    }

    class Thresholds(RuleThresholds):
        samples: int = 200  # fewer may agree by chance
        # What is given away is learned at once; to recall one of many values is a task.
        points: int = 100

    thresholds: Thresholds

    def reset(self) -> None:
        super().reset()
        self._is_task = False  # to find the answer among the inputs

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        if window.is_training:
            if "label_range" in window.record:
                yield self._range(window, context)
            if "targets" in window.record:
                yield self._answer(window, context)

    def _range(self, window: DataWindow, context: Context) -> Verdict:
        lowest, highest = label_range(window.record) or (0, 0)
        classes = context.num_outputs or 0
        # One output is of two classes or of a regression; far larger labels are no classes.
        is_wrong = classes <= highest < 2 * classes or -100 < lowest < 0
        is_wrong = is_wrong and bool(window.labels) and classes > 1
        return self.row(is_wrong, "range", window, lowest=lowest, highest=highest, classes=classes)

    def _answer(self, window: DataWindow, context: Context) -> Verdict:
        limits, loss = self.thresholds, context.curves.get("loss")
        if loss is not None and loss.count >= limits.points and loss.start is not None:
            is_slow = loss.recent_level(limits.points // 5) > 0.9 * loss.start > 0
            self._is_task = self._is_task or is_slow
        told = numbers(window.record, "telling")
        places = whole_numbers(window.record["telling"].get("features")) if told else ()
        # Of a small dataset the same samples come again and again.
        different = min(told.get("samples", 0.0), window.count("dataset_samples") or math.inf)
        holds = bool(places) and different >= limits.samples and not self._is_task
        return self.row(
            holds,
            "answer",
            window,
            # The figures are of all samples so far: those that have the answer no longer do.
            extent=None if holds else CONCLUSIVE,
            features=shown(places),
            samples=int(told.get("samples", 0)),
        )


class DataOrder(DataRule):
    """The training data is not shuffled: it has one order, or it is sorted by class.

    Training data that is not shuffled: one order in all epochs, or batches of one class.
    """

    name = "data-order"
    experiment = "Shuffle the samples and start again for one epoch: the loss must stop rippling."
    healthy = "Every epoch has another order, and every batch is a mixture of the classes."
    reports = {
        "info": "A stream gives the same samples in the same order again.",
        "warning": (
            "The sampler gives the same indices in the same order again. Or {share:percent} of the "
            "batches have one class, beyond chance."
        ),
    }
    needs = "`epochal.watch_data(loader)`, for two epochs or with whole numbers as labels."
    causes = frozenset({"memorising"})
    messages = {
        "order": Message(
            "Epoch {epoch} of {name!r} has the same order as epoch {same_as}: its first {batches} "
            "batches ({samples} samples) are the same.",
            "Pass shuffle=True to the DataLoader. A DistributedSampler needs "
            "sampler.set_epoch(epoch) before every epoch; a stream needs a new seed.",
            "info",
        ),
        "one class": Message(
            "{of_one_class:percent} of the batches of {name!r} have one class only, while epoch "
            "{epoch} has {classes} classes.",
            "The data is sorted by class, and each step unlearns the others. Shuffle it: "
            "shuffle=True, or a shuffled order of files and a buffer for a stream.",
        ),
    }

    class Thresholds(RuleThresholds):
        batches: int = 2  # a full batch has no order that matters
        samples: int = 16  # fewer may have the same order by chance
        labelled: int = 4  # batches: fewer may be of one class by chance
        share: float = 0.5

    thresholds: Thresholds

    def reset(self) -> None:
        super().reset()
        # By loader, batches and digest: the first epoch that had this order.
        self._epochs: dict[tuple[str, int, int, int], int] = {}
        # By loader and batches: the first epoch that had an order of so many.
        self._lengths: dict[tuple[str, int, int], int] = {}
        # By loader: the epoch and the samples up to which its order was judged.
        self._judged: dict[tuple[str, int], tuple[int, int]] = {}

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Compare the order with earlier epochs, and the labels of batches with those of all."""
        if window.is_training:
            yield from self._check_order(window)
            if window.labels:
                yield from self._check_classes(window)

    def _check_order(self, window: DataWindow) -> Iterator[Verdict]:
        last = (window.epoch, 0, 0)
        for batches, samples, digest in window.orders():
            if batches >= self.thresholds.batches and samples >= self.thresholds.samples:
                key, length = (*window.loader, batches, digest), (*window.loader, batches)
                # A partial epoch ends after batches that no other order can be compared at.
                if self._lengths.setdefault(length, window.epoch) < window.epoch:
                    last = (self._epochs.get(key, window.epoch), batches, samples)
                if len(self._epochs) < _MOST_ORDERS:
                    self._epochs.setdefault(key, window.epoch)
        same_as, batches, samples = last
        if batches:
            epoch, before = self._judged.get(window.loader, (0, 0))
            self._judged[window.loader] = (window.epoch, samples)
            holds, passed = same_as < window.epoch, samples - before * (epoch == window.epoch)
            yield self.row(
                holds,
                "order",
                window,
                severity="warning" if window.text("sampler") else None,
                extent=None if holds else passed,
                same_as=same_as,
                batches=batches,
                samples=samples,
            )

    def _check_classes(self, window: DataWindow) -> Iterator[Verdict]:
        limits, epoch = self.thresholds, self.epochs.add(window)
        if epoch.labelled < limits.labelled or len(epoch.labels) < 2:
            return
        share, total = min(1.0, epoch.of_one_class / epoch.labelled), epoch.labels.total()
        size = max(8.0, min(1e4, total / max(1, epoch.batches)))
        # The share that the frequencies of the classes explain.
        by_chance = sum((count / total) ** size for count in epoch.labels.values())
        holds, count = share >= limits.share and by_chance <= 0.1, len(epoch.labels)
        yield self.row(holds, "one class", window, of_one_class=share, classes=count)


class DataRepeated(DataRule):
    """Samples come several times where each should come once, others perhaps never.

    Samples that come several times: in an epoch, on several ranks or after a resume.

    Content that comes again may be a copy in the dataset, or a stream that begins again: a note.
    An index that comes again, or content once for each worker, is a mistake of the loading.
    """

    name = "data-repeated"
    certainty = "fact"
    healthy = "Each sample comes once in an epoch, on one rank, and not again after a resume."
    reports = {
        "info": (
            "{again:percent} of the samples have the content of an earlier one in the epoch. Or "
            "{resumed:percent} of the first samples after a resume came before it."
        ),
        "warning": (
            "{again:percent} of the indices come again in an epoch. Or every worker, every one of "
            "{batches} batches, two ranks or a resumed epoch has the same samples."
        ),
    }
    needs = "`epochal.watch_data(loader)`, on each rank."
    messages = {
        "one batch": Message(
            "The same batch comes again and again in epoch {epoch} of {name!r}: each of its "
            "samples came {often:times} times in {read} batches, of a dataset of {of} samples.",
            "Take the next batch in each step: check where the iterator of the loader is created, "
            "and that no test batch is left in the loop.",
        ),
        "again": Message(
            "{share:percent} of the samples of epoch {epoch} of {name!r} came before in it.",
            "Check the sampler and its list of indices. Give each worker of an IterableDataset its "
            "own part with torch.utils.data.get_worker_info(). Otherwise look for copies.",
            "info",
        ),
        "ranks": Message(
            "The same samples are used by {ranks}: {share:percent} of those compared in epoch "
            "{epoch} of {name!r}.",
            "Give each rank its own part: a DistributedSampler, or split_dataset_by_node for a "
            "stream. In a tensor-parallel group ranks share their data: turn the rule off there.",
        ),
        "resume": Message(
            "{share:percent} of the samples of {name!r} since the resume came before it, too.",
            "Save the loader's state with each checkpoint (StatefulDataLoader), or skip the "
            "batches that the interrupted epoch had.",
            "info",
        ),
    }

    class Thresholds(RuleThresholds):
        least: int = 32  # samples kept; fewer say nothing about a share
        again: float = 0.05  # datasets have some copies, and a last batch is filled with a few
        batches: int = 16  # before all of them are the same one
        common: float = 0.5
        resumed: float = 0.1

    thresholds: Thresholds

    def reset(self) -> None:
        super().reset()
        self._earlier: dict[tuple[str, int], tuple[bool, SampleSet]] = {}

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Count the samples of the epoch so far, and compare them."""
        epoch = self.epochs.add(window)
        if window.text("sampler") != "WeightedRandomSampler":  # it repeats samples by design
            yield from self._in_epoch(window, epoch)
        if window.is_training:
            yield from self._on_ranks(window, epoch, context)
            if window.epoch == 1:
                yield from self._after_resume(window, epoch, context)

    def _in_epoch(self, window: DataWindow, epoch: Epoch) -> Iterator[Verdict]:
        limits, is_index = self.thresholds, bool(window.indices)
        kept = (epoch.indices if is_index else epoch.hashes).kept
        total, of, read = kept.total(), window.count("dataset_samples"), epoch.read_batches
        if total < limits.least and not window.has_ended:
            return
        least = min(kept.values(), default=0)
        if total >= limits.least and read >= limits.batches and 2 * least >= read:
            often = total / len(kept)
            is_one = of > 2 * window.samples / max(1, window.batches)
            yield self.row(is_one, "one batch", window, "samples", often=often, read=read, of=of)
            return
        again = [sample for sample, count in kept.items() if count > 1]
        share = (total - len(kept)) / max(1, total)
        is_fault = is_index or (window.count("workers") > 1 and share > 0.4)
        yield self.row(
            total >= limits.least and len(again) > 2 and share >= limits.again,
            "again",
            window,
            "samples",
            severity="warning" if is_fault else None,
            share=share,
            indices=shown(sorted(again)) if is_index else "",
        )

    def _on_ranks(self, window: DataWindow, epoch: Epoch, context: Context) -> Iterator[Verdict]:
        """Compare contents: equal indices prove nothing, as each rank may have its own dataset."""
        shares: dict[int, float] = {}
        for (name, rank), other in self.epochs.items():
            if (name, other.number) != (window.name, epoch.number) or rank == window.rank:
                continue
            # The one that got less far: the other may be ahead.
            pair = (epoch.hashes, other.hashes)
            less, more = sorted(pair, key=lambda one: len(one.kept) << one.bits)
            common, total = less.common(more, is_index=False)
            if total >= self.thresholds.least // 2:
                shares[rank] = len(common) / total
        if shares:
            rank = max(shares, key=shares.__getitem__)
            ranks = " and ".join(context.rank_name(n) for n in sorted((rank, window.rank)))
            share, window = shares[rank], window._replace(rank=0)
            holds = share >= self.thresholds.common
            yield self.row(holds, "ranks", window, share=share, ranks=ranks)

    def _after_resume(
        self, window: DataWindow, epoch: Epoch, context: Context
    ) -> Iterator[Verdict]:
        """Compare the first epoch of this attempt with the one that was interrupted."""
        limits, first = self.thresholds, context.resumed_at
        if "earlier" in window.record:
            steps = whole_numbers(window.record.get("earlier_steps"), -1)
            pairs = zip(whole_numbers(window.record["earlier"]), steps, strict=False)
            is_index, before = window.text("earlier_by") == "index", SampleSet()
            # Later steps are made again.
            kept = [sample for sample, step in pairs if first is None or step < first]
            before.add(kept, min(48, window.count("earlier_bits")), is_index=is_index)
            self._earlier[window.loader] = (is_index, before)
        if window.loader not in self._earlier:
            return
        is_index, before = self._earlier[window.loader]
        seen = epoch.indices if is_index else epoch.hashes
        common, total = seen.common(before, is_index=is_index)
        if total >= limits.least // 2:
            share = len(common) / total
            yield self.row(
                share >= limits.resumed,
                "resume",
                window,
                severity="warning" if share >= limits.common else "info",
                share=share,
                indices=shown(sorted(common)) if is_index else "",
            )


class DataLeak(DataRule):
    """The evaluation uses samples that the model was trained on.

    Samples of an evaluation split that a training split gives, too.

    Samples are equal by content, or by index where both splits are of one dataset object. If the
    training samples repeat each other, such as short texts, new samples repeat them too: as many
    copies as that explains are no leak.
    """

    name = "data-leak"
    certainty = "fact"
    healthy = "No sample is in both training and evaluation data."
    reports = {
        "warning": "{share:percent} of the evaluation samples are training samples.",
        "error": "{error_share:percent} of the evaluation samples are training samples.",
    }
    needs = "`epochal.watch_data` for a training and an evaluation loader."
    causes = frozenset({"implausible results"})
    messages = {
        "leak": Message(
            "{of_evaluation:percent} of the evaluation samples of {evaluation!r} are training "
            "samples of {training!r} as well, by their {by} ({compared} were compared).",
            "The evaluation does not measure new data. Split the data again without common "
            "samples; results so far are too good.",
        )
    }

    class Thresholds(RuleThresholds):
        least: int = 16  # evaluation samples kept; fewer say nothing about a share
        common: int = 3  # one or two copies are in many datasets
        share: float = 0.01
        error_share: float = 0.5

    thresholds: Thresholds

    def reset(self) -> None:
        super().reset()
        # By split, and by what its identities are of: content, or a rank's dataset.
        self._sets: dict[tuple[str, str], SampleSet] = {}
        self._copies: dict[str, float] = {}  # of training splits: the share of copies
        self._guessed: set[str] = set()  # splits that nobody named

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Add the samples of the record to their split; compare when an epoch ends."""
        if window.record.get("guessed"):
            self._guessed.add(window.name)
        if window.hashes:
            self._add(window, "content", window.hashes, window.hash_bits)
            if window.is_training:
                counts = self.epochs.add(window).hashes.kept
                copies = 1 - sum(one == 1 for one in counts.values()) / max(1, counts.total())
                self._copies[window.name] = max(copies, self._copies.get(window.name, 0.0))
        if window.indices and window.text("dataset"):
            place = f"index in {window.text('dataset')} of rank {window.rank}"
            self._add(window, place, window.indices, window.index_bits)
        for name, place in list(self._sets) if window.has_ended else ():
            if is_training(name) != window.is_training and (window.name, place) in self._sets:
                pair = (window.name, name) if window.is_training else (name, window.name)
                yield from self._compare(window, *pair, place)

    def _add(self, window: DataWindow, place: str, samples: Iterable[int], bits: int) -> None:
        kept = self._sets.setdefault((window.name, place), SampleSet())
        kept.add(samples, bits, is_index=place != "content")

    def _compare(
        self, window: DataWindow, training: str, other: str, place: str
    ) -> Iterator[Verdict]:
        limits, is_index = self.thresholds, place != "content"
        sets = self._sets[other, place], self._sets[training, place]
        common, total = sets[0].common(sets[1], is_index=is_index)
        if total < limits.least:
            return  # sets are thinned out as they grow: what is left does not disprove a leak
        share, chance = len(common) / total, 0.0 if is_index else self._copies[training]
        beyond = max(0.2, 4 * math.sqrt(chance * (1 - chance) / total)) if chance else 0.0
        is_leak = len(common) >= limits.common and share >= limits.share
        yield self.row(
            is_leak and share > chance + beyond,
            "leak",
            window._replace(name=other, rank=0),
            place.split()[0],
            extent=1,  # one comparison of all samples so far
            severity=self._severity(other, share),
            words={"evaluation": other, "training": training, "by": place.split()[0]},
            of_evaluation=share,
            compared=total,
            indices=shown(sorted(common)) if is_index else "",
        )

    def _severity(self, evaluation: str, share: float) -> Severity:
        """Of several splits that nobody named, one may be meant to be training samples."""
        if evaluation not in self._guessed:
            return "error" if share >= self.thresholds.error_share else "warning"
        others = {name for name, _ in self._sets if not is_training(name)} - {evaluation}
        return "info" if others else "warning"


class DataShift(DataRule):
    """The model gets other data in evaluation than in training.

    Evaluation inputs of another distribution than training inputs.

    They are measured at the first layer, at the model and in the loaders. The one that is measured
    nearest to the first layer decides: a model may normalise its inputs.
    """

    name = "data-shift"
    healthy = "Inputs have the same distribution in training and in evaluation."
    reports = {
        "warning": (
            "Evaluation inputs are {apart:plain} times larger or smaller than training inputs, or "
            "{apart:plain} standard deviations away."
        )
    }
    needs = "`epochal.watch(model)`, or `epochal.watch_data(loader)` for the loaders."
    causes = frozenset({"poor evaluation", "memorising"})
    kinds = DATA_KINDS | {"event"}
    every_rank = False
    messages = {
        "evaluation": Message(
            "The evaluation inputs{of} are {how} the training inputs: their mean is {mean} and "
            "their standard deviation {std}, but {train_mean} and {train_std} in training.",
            "Prepare both in the same way: the same scale, mean and standard deviation.",
        )
    }

    class Thresholds(RuleThresholds):
        samples: int = 64  # of a record; fewer differ by chance
        # Times or standard deviations: augmentation changes less.
        apart: float = 3.0

    thresholds: Thresholds

    def reset(self) -> None:
        # Mean and standard deviation of inputs: by where they were measured, and in which mode.
        self._inputs: dict[tuple[str, str], list[tuple[float, float]]] = {}
        # The same of the loaders: of those of training together, and of each one of evaluation.
        self._trained: list[tuple[float, float]] = []
        self._loaders: dict[str, list[tuple[float, float]]] = {}

    def observe(self, observation: Observation, context: Context) -> Iterator[Verdict]:
        """Compare the inputs of the first layer or the model; else those of the loaders."""
        record, window = observation.record, window_of(observation)
        mean, std = number(record.get("mean")), number(record.get("std"))
        if mean is None or std is None:
            return
        if observation.kind == "data":
            is_measured = any(mode == "eval" for _, mode in self._inputs)
            if window is not None and window.samples >= self.thresholds.samples and not is_measured:
                yield from self._judge_loaders(window, mean, std)
        elif record.get("name") == "inputs":
            where, mode = str(record.get("where")), str(record.get("mode"))
            _keep(self._inputs.setdefault((where, mode), []), mean, std)
            yield from self._judge_model(where)

    def _judge_loaders(self, window: DataWindow, mean: float, std: float) -> Iterator[Verdict]:
        """Compare an evaluation loader, or all of them, with the training loaders."""
        is_training, name = window.is_training, window.name
        _keep(self._trained if is_training else self._loaders.setdefault(name, []), mean, std)
        for one, other in self._loaders.items() if self._trained else ():
            if is_training or one == name:
                yield self._compare(self._trained, other, f"data/{one}", f" of {one!r}")

    def _judge_model(self, where: str) -> Iterator[Verdict]:
        """Compare the inputs of the place where this was measured, if that place decides."""
        measured = [place for place, mode in self._inputs if mode == "eval"]
        layers = [one for one in measured if one != "model" and (one, "train") in self._inputs]
        train, other = (self._inputs.get((where, one), []) for one in ("train", "eval"))
        # One odd batch proves nothing.
        if not train or len(other) < 2 or (layers and where not in layers):
            return
        is_model = where == "model"
        verdict = self._compare(
            train,
            other,
            "inputs/eval" if is_model else f"inputs/eval of {where}",
            "" if is_model else f" of the layer {where}",
        )
        yield verdict
        if not verdict.active:
            less = () if is_model else ("inputs/eval",)
            for subject in (*less, *(f"data/{name}" for name in self._loaders)):
                yield Verdict(subject, False, extent=CONCLUSIVE)  # this measurement decides

    def _compare(
        self,
        train: list[tuple[float, float]],
        other: list[tuple[float, float]],
        subject: str,
        of: str,
    ) -> Verdict:
        """Compare all evaluation inputs with all training inputs of one place."""
        apart = self.thresholds.apart
        means, stds = (sorted(column) for column in zip(*other, strict=True))
        train_means, train_stds = (sorted(column) for column in zip(*train, strict=True))
        std, train_std, how = median(stds), median(train_stds), ""
        if stds[0] > apart * train_stds[-1] > 0:
            how = f"{times(std / train_std)} times larger than"
        elif 0 < apart * stds[-1] < train_stds[0]:
            how = f"{times(train_std / std)} times smaller than"
        elif max(means[0] - train_means[-1], train_means[0] - means[-1]) > apart * train_stds[-1]:
            how = "far away from"
        if not how or not train_stds[-1]:
            return Verdict(subject, False)
        return self.found(
            "evaluation",
            subject,
            words={"how": how, "of": of},
            extent=len(other),
            mean=median(means),
            std=std,
            train_mean=median(train_means),
            train_std=train_std,
        )


def _keep(inputs: list[tuple[float, float]], mean: float, std: float) -> None:
    """Add the newest of a bounded number of measurements."""
    inputs.append((mean, std))
    del inputs[:-_MOST_INPUTS]
