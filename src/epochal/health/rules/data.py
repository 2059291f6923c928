"""Rules about the data: what ``epochal.watch_data`` records of each loader.

A rule is a table of checks over one record, a ``DataWindow``. A check names its message, when it
holds and its evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from types import MappingProxyType

from epochal.format import plural
from epochal.health.context import Context
from epochal.health.data_window import (
    DATA_KINDS,
    DataWindow,
    Epoch,
    Epochs,
    SampleSet,
    are_unrelated,
    associations,
    constant_costs,
    is_training,
    number,
    numbers,
    shown,
    whole_numbers,
    window_of,
)
from epochal.health.evaluations import num_classes
from epochal.health.finding import Severity
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, Verdict
from epochal.health.text import times
from epochal.health.thresholds import RuleThresholds


class DataRule(Rule):
    """Gives each record of a loader to the checks, and forgets all of them with a new attempt."""

    group = "data"
    needs = "`epochal.watch_data(loader)`."
    kinds = DATA_KINDS
    replaces_text = True

    def __init__(self, thresholds: RuleThresholds) -> None:
        super().__init__(thresholds)
        self.reset()

    def reset(self) -> None:
        """Forget everything: a new process counts its epochs from 1."""
        self.epochs = Epochs()

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check one record of a loader."""
        window = window_of(observation)
        return () if window is None else self.check(window, context)

    def check(self, window: DataWindow, context: Context) -> Iterable[Verdict]:
        """Check one window of a loader."""
        raise NotImplementedError

    def forget_from(self, step: int, context: Context) -> None:
        """Begin again."""
        self.reset()

    def row(
        self,
        holds: bool,
        message: str,
        window: DataWindow,
        about: str = "",
        severity: Severity | None = None,
        words: Mapping[str, str] = MappingProxyType({}),
        **evidence: float | int | str,
    ) -> Verdict:
        """Return the verdict of one check; rows with the same ``about`` share their finding."""
        subject = window.subject(about or message)
        if not holds:
            return Verdict(subject, False)
        words = {"name": window.name, "epoch": f"{window.epoch:,}", **words}
        found = self.found(message, subject, steps=None, severity=severity, words=words, **evidence)
        return found._replace(evidence={k: v for k, v in evidence.items() if v != ""})


class DataValues(DataRule):
    """Inputs that are not finite, constant, or mostly padding."""

    name = "data-values"
    meaning = "Inputs are not finite, or constant, as in broken files and empty images."
    healthy = "Every input is finite, and its values differ."
    reports = {
        "info": (
            "{constant_share:percent} of the samples, at least {constant_samples}, or "
            "{features:percent} of the features are constant. Or {padding:percent} is padding."
        ),
        "warning": "A sample is not finite, or {constant_grave:percent} of them are constant.",
    }
    release = 3
    messages = {
        "nonfinite": Message(
            "warning",
            "There are values that are not finite in {which} of epoch {epoch} of {name!r} "
            "({share:percent} of those read).",
            "Look at these samples: a file may be broken, or the preparation divides by 0.",
        ),
        "constant": Message(
            "info",
            "All values are equal in {which} of epoch {epoch} of {name!r} ({share:percent} of "
            "those read).",
            "Look at these samples: they may be empty images or files that cannot be read.",
        ),
        "features": Message(
            "info",
            "{constant} of {of} input features of {name!r} are the same in every sample.",
            "Check the preparation of these features: a column may be empty, or scaled to 0.",
        ),
        "padding": Message(
            "info",
            "{share:percent} of the positions of {name!r} are padding.",
            "Sort sequences by length, pack several into one, or pad to the longest of a batch.",
        ),
    }

    class Thresholds(RuleThresholds):
        constant_share: float = 0.05  # of a record's samples; empty patches are in many datasets
        constant_samples: int = 10
        constant_grave: float = 0.5
        features: float = 0.5  # images have constant borders
        padding: float = 0.5
        batches: int = 8  # a few batches may be odd ones

    thresholds: Thresholds

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Check the counts of one record."""
        limits, batches = self.thresholds, window.count("read_batches")
        read = max(1.0, min(1.0, batches / max(1, window.batches)) * window.samples)
        for which in ("nonfinite", "constant") if batches else ():
            samples = window.count(f"{which}_samples")
            share = min(1.0, samples / read)
            is_grave = which == "nonfinite" or share >= limits.constant_grave
            is_much = share >= limits.constant_share and samples >= limits.constant_samples
            yield self.row(
                samples > 0 and (which == "nonfinite" or is_much),
                which,
                window,
                severity="warning" if is_grave else "info",
                words={"which": plural(samples, "sample")},
                samples=samples,
                share=share,
                indices=shown(whole_numbers(window.record.get(f"{which}_at"))),
            )
        constant, of = window.count("constant_features"), window.count("features")
        is_much = of > 0 and constant >= limits.features * of
        yield self.row(is_much, "features", window, constant=constant, of=of)
        padded = number(window.record.get("padding"))
        if padded is not None and window.batches >= limits.batches:
            is_much = limits.padding <= padded <= 1
            yield self.row(is_much, "padding", window, share=padded)


class DataLabels(DataRule):
    """Labels among the inputs, labels that do not belong to them, and labels out of range."""

    name = "data-labels"
    meaning = "The labels are among the inputs, do not belong to them, or are no classes."
    healthy = "Labels depend on the inputs, and no single input value gives them away."
    reports = {
        "warning": (
            "Some features have one value for each class in {samples} samples, and the loss has "
            "fallen. Or near inputs have nearer targets in the evaluation data, but not in "
            "{batches} batches of training data, and no loss has fallen to {learned:percent}. Or "
            "labels are negative (other than -100) or not below the number of classes."
        )
    }
    needs = "`epochal.watch_data(loader)`, with inputs and labels in each batch."
    causes = frozenset({"implausible results"})
    symptom_of = frozenset({"lost values"})
    kinds = DATA_KINDS | {"event"}
    every_rank = False
    messages = {
        "answer": Message(
            "warning",
            "The answer is among the inputs of {name!r}: input values {features} (counted from 0) "
            "are the same for all samples of one label, in {samples} samples of {classes} labels.",
            "A model that reads these values knows the label without learning anything. Find out "
            "how the label came among the inputs, and remove it.",
        ),
        "mismatch": Message(
            "warning",
            "The labels of {name!r} do not belong to their inputs: near inputs have no nearer "
            "targets ({association} ± {error}), but in {other!r} they have ({of_evaluation}).",
            "Look at some training samples with their labels: inputs and labels may have been "
            "shuffled, sorted or filtered apart.",
        ),
        "range": Message(
            "warning",
            "The labels of {name!r} are between {lowest:plain} and {highest:plain}, but there are "
            "{classes} classes, counted from 0.",
            "Map the labels to 0 and up, and check the number of outputs. Use -100 for labels "
            "that the loss is to ignore.",
        ),
    }

    class Thresholds(RuleThresholds):
        samples: int = 200  # fewer may agree by chance
        # What is given away is learned at once; to recall one of many values is a task.
        points: int = 100
        left: float = 0.9
        batches: int = 24
        # In standard errors: an association of the evaluation data that is clear.
        clear: float = 6.0
        share: float = 0.25  # of it: what the training data may have at most
        learned: float = 0.8

    thresholds: Thresholds

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._pairs: dict[bool, DataWindow] = {}  # by whether they are of training
        self._outputs: int | None = None
        self._is_task = False  # to find the answer among the inputs

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Note the outputs of the model, or check one record of a loader."""
        if observation.kind == "event":
            if observation.record.get("name") == "model":
                self._outputs = observation.count_of("outputs") or None
            return ()
        return super().observe(observation, context)

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Check the newest record of a training split."""
        if "association" in window.record:
            self._pairs[window.is_training] = window
        if len(self._pairs) == 2:
            yield self._mismatch(self._pairs[True], self._pairs[False], context)
        if window.is_training:
            yield self._range(window, context)
        if window.is_training and "targets" in window.record:
            yield self._answer(window, context)

    def _range(self, window: DataWindow, context: Context) -> Verdict:
        lowest, highest = (*whole_numbers(window.record.get("label_range"), -(1 << 63)), 0, 0)[:2]
        classes = num_classes(context.config) or self._outputs or 0
        # One output is of two classes or of a regression; far larger labels are no classes.
        is_wrong = classes <= highest < 2 * classes or -100 < lowest < 0
        is_wrong = is_wrong and bool(window.labels) and classes > 1
        return self.row(is_wrong, "range", window, lowest=lowest, highest=highest, classes=classes)

    def _answer(self, window: DataWindow, context: Context) -> Verdict:
        limits, loss = self.thresholds, context.curves.get("loss")
        if loss is not None and loss.count >= limits.points and loss.start is not None:
            level = loss.recent_level(limits.points // 5)
            self._is_task = self._is_task or level > limits.left * loss.start > 0
        told = numbers(window.record, "telling")
        places = whole_numbers(window.record["telling"].get("features")) if told else ()
        # Of a small dataset the same samples come again and again.
        different = min(told.get("samples", 0.0), window.count("dataset_samples") or math.inf)
        return self.row(
            bool(places) and different >= limits.samples and not self._is_task,
            "answer",
            window,
            features=shown(places),
            samples=int(told.get("samples", 0)),
            classes=int(told.get("classes", 0)),
        )

    def _mismatch(self, window: DataWindow, other: DataWindow, context: Context) -> Verdict:
        """Compare the association of the training data with that of the evaluation data."""
        limits, own = self.thresholds, associations(window, self.thresholds.batches)
        for name, there in associations(other, 4).items() if are_unrelated(own) else ():
            here, is_clear = own[name], there.value > limits.clear * there.error
            is_less = here.value + 3 * here.error < limits.share * there.value
            if is_clear and is_less and not self._has_learned(window, context):
                return self.row(
                    True,
                    "mismatch",
                    window,
                    words={"other": other.name},
                    association=here.value,
                    error=here.error,
                    of_evaluation=there.value,
                )
        return self.row(False, "mismatch", window)

    def _has_learned(self, window: DataWindow, context: Context) -> bool:
        """Return True if a loss has fallen by more than an average explains, or may fall yet."""
        evaluation, loss = context.curves.get("eval_loss"), context.curves.get("loss")
        if evaluation is not None and evaluation.count:
            values = [value for _, value in evaluation.points]
            if len(values) < 3:
                return True
            first, now = values[0], values[-1]
        elif loss is not None and loss.count >= self.thresholds.points and loss.first is not None:
            first, now = loss.first, loss.recent_level(self.thresholds.points // 5)
        else:
            return True
        is_average = any(abs(now / cost - 1) < 0.1 for cost in constant_costs(window))
        return now < self.thresholds.learned * first and not is_average


class DataOrder(DataRule):
    """The samples of an epoch come in the order of an earlier epoch."""

    name = "data-order"
    meaning = "The training data has the same order in every epoch: it is not shuffled."
    healthy = "Every epoch has another order."
    reports = {
        "info": "A stream gives the same samples in the same order again.",
        "warning": "The sampler gives the same indices in the same order again.",
    }
    needs = "`epochal.watch_data(loader)`, for two epochs."
    messages = {
        "order": Message(
            "info",
            "Epoch {epoch} of {name!r} has the same order as epoch {same_as}: its first {batches} "
            "batches ({samples} samples) are the same.",
            "{advice}",
        )
    }

    class Thresholds(RuleThresholds):
        batches: int = 2  # a full batch has no order that matters
        samples: int = 16  # fewer may have the same order by chance

    thresholds: Thresholds

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        # By loader, then by batches: the digest of each epoch that got so far.
        self._digests: dict[tuple[str, int], dict[int, dict[int, int]]] = {}

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Compare with the digests that earlier epochs had after as many batches."""
        if not window.is_training:
            return
        known, same, has_compared = self._digests.setdefault(window.loader, {}), (0, 0, 0), False
        for batches, samples, digest in window.orders():
            if batches < self.thresholds.batches or samples < self.thresholds.samples:
                continue
            epochs = known.setdefault(batches, {})
            has_compared = has_compared or any(epoch != window.epoch for epoch in epochs)
            earlier = [epoch for epoch, other in epochs.items() if other == digest]
            if earlier and earlier[0] < window.epoch:
                same = (earlier[0], batches, samples)
            if len(epochs) < 64:
                epochs[window.epoch] = digest
        sampler = window.text("sampler")
        if has_compared:
            yield self.row(
                same[1] > 0,
                "order",
                window,
                severity="warning" if sampler else "info",
                words={"advice": _shuffling(sampler)},
                same_as=same[0],
                batches=same[1],
                samples=same[2],
            )


def _shuffling(sampler: str) -> str:
    if "Distributed" in sampler:
        return "Call sampler.set_epoch(epoch) before every epoch: the order depends on it."
    if sampler == "SequentialSampler":
        return "Pass shuffle=True to the DataLoader of the training data."
    if sampler:
        return f"{sampler} gives the same order again: do not set its seed in every epoch."
    return "Shuffle the stream, for example its shards and a buffer of samples, with a new seed."


class DataOneClass(DataRule):
    """Most batches have one label, while the data has several."""

    name = "data-one-class"
    meaning = "Batches have one class only: the data is sorted by class."
    healthy = "Every batch is a mixture of the classes."
    reports = {"warning": "{share:percent} of the batches have one class, beyond chance."}
    needs = "`epochal.watch_data(loader)`, with whole numbers as labels."
    causes = frozenset({"memorising"})
    messages = {
        "one class": Message(
            "warning",
            "{of_one_class:percent} of the batches of {name!r} have one class only, while epoch "
            "{epoch} has {classes} classes.",
            "The data is sorted by class, and each step unlearns the others. Shuffle it: "
            "shuffle=True, or a shuffled order of files and a buffer for a stream.",
        )
    }

    class Thresholds(RuleThresholds):
        batches: int = 4  # fewer may be of one class by chance
        share: float = 0.5
        by_chance: float = 0.1  # the share that the frequencies of the classes explain

    thresholds: Thresholds

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Add the labels of the record to those of its epoch."""
        if not window.is_training or not window.labels:
            return
        limits, epoch = self.thresholds, self.epochs.add(window)
        if epoch.labelled < limits.batches or len(epoch.labels) < 2:
            return
        share, total = min(1.0, epoch.of_one_class / epoch.labelled), epoch.labels.total()
        size = max(8.0, min(1e4, total / max(1, epoch.batches)))
        by_chance = sum((count / total) ** size for count in epoch.labels.values())
        holds, count = share >= limits.share and by_chance <= limits.by_chance, len(epoch.labels)
        yield self.row(holds, "one class", window, of_one_class=share, classes=count)


class DataRepeated(DataRule):
    """Samples that come several times: in an epoch, on several ranks or after a resume.

    Content that comes again may be a copy in the dataset, or a stream that begins again: a note.
    An index that comes again, or content once for each worker, is a mistake of the loading.
    """

    name = "data-repeated"
    meaning = "Samples come several times where each should come once, others perhaps never."
    healthy = "Each sample comes once in an epoch, on one rank, and not again after a resume."
    reports = {
        "info": (
            "{content_share:percent} of the samples have the content of an earlier one in the "
            "epoch. Or {resumed:percent} of the first samples after a resume came before it."
        ),
        "warning": (
            "{index_share:percent} of the indices come again in an epoch. Or every worker, every "
            "one of {batches} batches, two ranks or a resumed epoch has the same samples."
        ),
    }
    needs = "`epochal.watch_data(loader)`, on each rank."
    messages = {
        "one batch": Message(
            "warning",
            "The same batch comes again and again in epoch {epoch} of {name!r}: each of its "
            "samples came {often:times} times in {read} batches, of a dataset of {of} samples.",
            "Take the next batch in each step: check where the iterator of the loader is created, "
            "and that no test batch is left in the loop.",
        ),
        "indices": Message(
            "warning",
            "{share:percent} of the indices of epoch {epoch} of {name!r} came before in it.",
            "Check the sampler: it draws with replacement, or its list of indices has copies.",
        ),
        "workers": Message(
            "warning",
            "Each of {workers} workers gives the same samples in epoch {epoch} of {name!r}.",
            "Give each worker its own part of the IterableDataset with "
            "torch.utils.data.get_worker_info().",
        ),
        "content": Message(
            "info",
            "{share:percent} of the samples of epoch {epoch} of {name!r} are copies of others.",
            "Remove copies from the dataset, or start another epoch where the stream begins again.",
        ),
        "ranks": Message(
            "warning",
            "Ranks {ranks} train on the same samples: {share:percent} of those compared in epoch "
            "{epoch} of {name!r}.",
            "Give each rank its own part: a DistributedSampler, or split_dataset_by_node for a "
            "stream. In a tensor-parallel group ranks share their data: turn the rule off there.",
        ),
        "resume": Message(
            "info",
            "{share:percent} of the samples of {name!r} since the resume came before it, too.",
            "Save the loader's state with each checkpoint (StatefulDataLoader), or skip the "
            "batches that the interrupted epoch had.",
        ),
    }

    class Thresholds(RuleThresholds):
        least: int = 32  # samples kept; fewer say nothing about a share
        index_share: float = 0.02  # a distributed sampler fills its last batch with a few
        content_share: float = 0.05  # datasets have some copies
        batches: int = 16  # before all of them are the same one
        common: float = 0.5
        resumed: float = 0.1

    thresholds: Thresholds

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._earlier: dict[tuple[str, int], tuple[bool, SampleSet]] = {}

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Count the samples of the epoch so far, and compare them."""
        epoch = self.epochs.add(window)
        if window.text("sampler") != "WeightedRandomSampler":  # it repeats samples by design
            yield from self._in_epoch(window, epoch)
        if window.is_training:
            yield from self._on_ranks(window, epoch)
            if window.epoch == 1:
                yield from self._after_resume(window, epoch, context)

    def _in_epoch(self, window: DataWindow, epoch: Epoch) -> Iterator[Verdict]:
        limits, is_index, workers = self.thresholds, bool(window.indices), window.count("workers")
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
        limit = limits.index_share if is_index else limits.content_share
        of_workers = sum(kept[sample] % workers == 0 for sample in again) if workers > 1 else 0
        message = "workers" if 2 * of_workers > len(kept) else "content"
        yield self.row(
            total >= limits.least and len(again) > 2 and share >= limit,
            "indices" if is_index else message,
            window,
            "samples",
            share=share,
            indices=shown(sorted(again)) if is_index else "",
            workers=workers,
        )

    def _on_ranks(self, window: DataWindow, epoch: Epoch) -> Iterator[Verdict]:
        """Compare contents: equal indices prove nothing, as each rank may have its own dataset."""
        found: list[tuple[float, int]] = []
        for (name, rank), other in self.epochs.items():
            if (name, other.number) != (window.name, epoch.number) or rank == window.rank:
                continue
            # The one that got less far: the other may be ahead.
            pair = (epoch.hashes, other.hashes)
            less, more = sorted(pair, key=lambda one: len(one.kept) << one.bits)
            common, total = less.common(more, is_index=False)
            if total >= self.thresholds.least // 2:
                found.append((len(common) / total, rank))
        if found:
            share, rank = max(found)
            ranks = " and ".join(str(one) for one in sorted((rank, window.rank)))
            holds, window = share >= self.thresholds.common, window._replace(rank=0)
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
    """Samples of an evaluation split that a training split gives, too.

    Samples are equal by content, or by index where both splits are of one dataset object. If the
    training samples repeat each other, such as short texts, new samples repeat them too: as many
    copies as that explains are no leak.
    """

    name = "data-leak"
    meaning = "The evaluation uses samples that the model was trained on."
    healthy = "No sample is in both training and evaluation data."
    reports = {
        "warning": "{share:percent} of the evaluation samples are training samples.",
        "error": "{error_share:percent} of the evaluation samples are training samples.",
    }
    needs = "`epochal.watch_data` for a training and an evaluation loader."
    causes = frozenset({"implausible results"})
    messages = {
        "leak": Message(
            "warning",
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
        beyond: float = 0.2  # the copies that are expected by chance

    thresholds: Thresholds

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        # By split, and by what its identities are of: content, or a rank's dataset.
        self._sets: dict[tuple[str, str], SampleSet] = {}
        self._indices: dict[int, int] = {}  # of evaluation samples, by content
        self._copies: dict[str, float] = {}  # of training splits: the share of copies

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Add the samples of the record to their split; compare when an epoch ends."""
        if window.hashes:
            self._add(window, "content", window.hashes, window.hash_bits)
            if window.is_training:
                counts = self.epochs.add(window).hashes.kept
                copies = 1 - sum(one == 1 for one in counts.values()) / max(1, counts.total())
                self._copies[window.name] = max(copies, self._copies.get(window.name, 0.0))
            elif len(self._indices) < 4096:
                pairs = zip(window.hashes, window.hash_indices, strict=True)
                self._indices |= {sample: index for sample, index in pairs if index is not None}
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
        beyond = max(limits.beyond, 4 * math.sqrt(chance * (1 - chance) / total)) if chance else 0.0
        indices = common if is_index else [self._indices[n] for n in common if n in self._indices]
        is_leak = len(common) >= limits.common and share >= limits.share
        yield self.row(
            is_leak and share > chance + beyond,
            "leak",
            window._replace(name=other, rank=0),
            place.split()[0],
            severity="error" if share >= limits.error_share else "warning",
            words={"evaluation": other, "training": training, "by": place.split()[0]},
            of_evaluation=share,
            compared=total,
            indices=shown(sorted(indices)),
        )


class DataShift(DataRule):
    """Inputs of another distribution: in evaluation, or in a later epoch."""

    name = "data-shift"
    meaning = "The model gets other data in evaluation than in training, or in later epochs."
    healthy = "Inputs have the same distribution everywhere."
    reports = {
        "info": (
            "Since the first epoch the mean of the inputs moved by {mean_shift:plain} deviations, "
            "or the deviation changed {std_ratio:times} times. A curriculum does so by design."
        ),
        "warning": (
            "Evaluation inputs are {apart:times} times larger or smaller than training inputs, or "
            "{apart:times} deviations away. Or inputs changed {grave:times} times between epochs."
        ),
    }
    needs = "`epochal.watch(model)`, or `epochal.watch_data(loader)` for the loaders."
    causes = frozenset({"poor evaluation", "memorising"})
    kinds = DATA_KINDS | {"event"}
    messages = {
        "evaluation": Message(
            "warning",
            "The evaluation inputs are {how} the training inputs: their mean is {mean} and their "
            "standard deviation {std}, but {train_mean} and {train_std} in training.",
            "Prepare the data of both in the same way: the same division by 255, the same mean and "
            "standard deviation.",
        ),
        "epoch": Message(
            "info",
            "Epoch {epoch} of {name!r} has other data than epoch {first}: {what}.",
            "Check the normalisation, the augmentation and which files each epoch reads.",
        ),
    }

    class Thresholds(RuleThresholds):
        samples: int = 64  # of a split or an epoch; fewer differ by chance
        # Times or standard deviations: augmentation changes less.
        apart: float = 3.0
        # From epoch to epoch, in standard deviations and times.
        mean_shift: float = 0.5
        std_ratio: float = 2.0
        grave: float = 8.0

    thresholds: Thresholds

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._first: dict[tuple[str, int], Epoch] = {}
        # Mean and standard deviation of inputs: by where they were measured, and in which mode.
        self._inputs: dict[tuple[str, str], list[tuple[float, float]]] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the inputs that a model got, or one record of a loader."""
        record = observation.record
        if observation.kind == "data":
            return super().observe(observation, context)
        mean, std = number(record.get("mean")), number(record.get("std"))
        if record.get("name") != "inputs" or mean is None or std is None:
            return ()
        where, mode = str(record.get("where")), str(record.get("mode"))
        self._inputs.setdefault((where, mode), []).append((mean, std))
        return self._in_evaluation(where, "eval", 2) if mode == "eval" else ()

    def check(self, window: DataWindow, context: Context) -> Iterator[Verdict]:
        """Compare splits with each other, and epochs with the first one."""
        limits, epoch = self.thresholds, self.epochs.add(window)
        if epoch.samples < limits.samples:
            return
        # What reaches the model tells more than what the loaders give.
        is_measured = any(where != "data" and mode == "eval" for where, mode in self._inputs)
        if not is_measured and epoch.inputs is not None and window.rank == 0:
            mode = "train" if window.is_training else window.name
            self._inputs.setdefault(("data", mode), []).append(epoch.inputs)
            for where, other in list(self._inputs):
                if where == "data" and other != "train":
                    yield from self._in_evaluation(where, other, 1)
            self._inputs = {key: self._inputs[key][-8:] for key in self._inputs}
        if not window.has_ended:
            return
        first = self._first.setdefault(window.loader, epoch)
        if first is not epoch and 0.9 <= epoch.samples / first.samples <= 1.1:
            what, is_grave = self._moved(first, epoch)
            severity: Severity = "warning" if is_grave else "info"
            words = {"what": what, "first": f"{first.number:,}"}
            yield self.row(bool(what), "epoch", window, severity=severity, words=words)

    def _in_evaluation(self, where: str, mode: str, least: int) -> Iterator[Verdict]:
        """Compare all evaluation inputs with all training inputs of one place."""
        apart, subject = self.thresholds.apart, "inputs/eval"
        train, other = self._inputs.get((where, "train"), []), self._inputs[where, mode]
        if not train or len(other) < least:
            return
        stds, train_stds = sorted(std for _, std in other), sorted(std for _, std in train)
        means, train_means = sorted(mean for mean, _ in other), sorted(mean for mean, _ in train)
        std, train_std, how = median(stds), median(train_stds), ""
        if stds[0] > apart * train_stds[-1] > 0:
            how = f"{times(std / train_std)} times larger than"
        elif 0 < apart * stds[-1] < train_stds[0]:
            how = f"{times(train_std / std)} times smaller than"
        elif max(means[0] - train_means[-1], train_means[0] - means[-1]) > apart * train_stds[-1]:
            how = "far away from"
        if not how or not train_stds[-1]:
            yield Verdict(subject, False)
            return
        yield self.found(
            "evaluation",
            subject,
            words={"how": how},
            mean=median(means),
            std=std,
            train_mean=median(train_means),
            train_std=train_std,
        )

    def _moved(self, first: Epoch, epoch: Epoch) -> tuple[str, bool]:
        """Return what moved since the first epoch, empty if nothing did, and if it is grave."""
        limits = self.thresholds
        if first.inputs is None or epoch.inputs is None:
            return "", False
        (before, wide), (after, std) = first.inputs, epoch.inputs
        shift, ratio = abs(after - before) / wide, max(std / wide, wide / std)
        is_grave = shift > limits.apart or ratio > limits.grave
        if shift > limits.mean_shift:
            return f"the mean of the inputs moved by {times(shift)} deviations", is_grave
        is_wider = ratio > limits.std_ratio
        return f"their deviation changed {times(ratio)} times" if is_wider else "", is_grave
