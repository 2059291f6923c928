"""``SummaryWriter`` with the interface of ``torch.utils.tensorboard``, over an Epochal run.

``from epochal import SummaryWriter`` takes the place of torch's in a script that stays as it is.
The run lies in ``log_dir``. Charts, histograms, pictures, videos, sounds, texts and curves are
recorded as such; meshes, embeddings and tensors are kept as files of the run. With
``report_to="tensorboard"`` the companion writes TensorBoard's event files as well.

Calls raise what torch's raise for arguments that cannot be accepted.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.errors import RunFinishedError, UsageError
from epochal.exchange.media.types import Image, Markdown, Sample
from epochal.exchange.sinks import protobuf as pb
from epochal.journal.layout import is_run_folder
from epochal.journal.line import now
from epochal.records import Record
from epochal.records.values import element_count
from epochal.run.accepted import CallValues
from epochal.run.board import save_with_run
from epochal.run.run import Run, recorder_of
from epochal.run.start import init_in
from epochal.settings import read_settings

# The open runs by their folders, and their writers: the last one to close finishes the run.
_RUNS: dict[Path, Run] = {}
_HOLDERS: defaultdict[Path, weakref.WeakSet[SummaryWriter]] = defaultdict(weakref.WeakSet)
_LOCK = threading.RLock()


class SummaryWriter:
    """Records what training scripts hand to TensorBoard as an Epochal run in ``log_dir``.

    ``log_dir`` is ``runs/<date and time>_<host><comment>`` by default. Opened again, it goes on
    with the run that is there, as another attempt; ``purge_step`` hides older records from that
    step on. ``report_to`` names the sinks to forward the run to, as in ``epochal.init``. A call
    without ``global_step`` is numbered by the calls of its tag before it. ``max_queue``,
    ``flush_secs`` and ``filename_suffix`` are accepted and have no effect.

    Args:
        log_dir: The folder of the run.
        comment: A suffix of the folder's name, if ``log_dir`` is not given.
        purge_step: Hide what was logged from this step on.
        max_queue: Has no effect.
        flush_secs: Has no effect.
        filename_suffix: Has no effect.
        report_to: The sinks that receive the run.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
        *,
        report_to: str | Iterable[str] | None = None,
    ) -> None:
        if not log_dir:
            begun = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join(read_settings().dir, f"{begun}_{socket.gethostname()}{comment}")
        if "://" in str(log_dir):
            raise UsageError(f"log_dir={str(log_dir)!r} is not a folder of this machine.")
        self.log_dir = log_dir
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._folder = Path(log_dir).expanduser().absolute()
        self._report_to = report_to
        self._run: Run | None = None
        # The run's own call, for plain numbers; None while closed.
        self._log: Callable[..., None] | None = None
        self._counts: Counter[str] = Counter()
        self._hparams: dict[str, Any] | None = None
        self._layout: dict[str, dict[str, list[str]]] = {}
        self._open(purge_step)

    def __enter__(self) -> SummaryWriter:
        return self

    # -- numbers ----------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number: Python's, NumPy's, or a tensor of one element, which is not waited for.

        Numbers are kept in double precision; ``new_style`` and ``double_precision`` have no effect.
        """
        kind = type(scalar_value)
        number = scalar_value if kind is float or kind is int else one_number(scalar_value)
        log = self._log
        if log and type(tag) is str and tag and type(global_step) is int and walltime is None:
            try:
                log({tag: number}, global_step)
            except RunFinishedError:
                pass  # by another writer of the folder: the way below opens it again
            else:
                return
        self._add_numbers({name_of(tag): number}, tag, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add several numbers at once, as the series ``main_tag/key`` of this run."""
        group = name_of(main_tag)
        numbers = {f"{group}/{key}": one_number(value) for key, value in tag_scalar_dict.items()}
        if numbers:
            self._add_numbers(numbers, main_tag, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Keep a whole tensor as a NumPy file."""
        from epochal.integrations import tensorboard_values as made

        self._add(f"{name_of(tag)}.npy", made.tensor(tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add the distribution of values.

        By default they are counted in 64 equal bins, on a GPU without waiting. Other ``bins`` are
        those of ``numpy.histogram``.
        """
        from epochal.integrations import tensorboard_values as made

        record = made.histogram(name_of(tag), values, bins, max_bins)
        self._write(record, tag, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,  # noqa: A002 (torch's names)
        max: Any,  # noqa: A002
        num: Any,
        sum: Any,  # noqa: A002
        sum_squares: Any,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a histogram that was counted before; ``bucket_limits`` are upper limits."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        from epochal.exchange.imports.histogram import (
            edges_from_limits,
            histogram_record,
            moments_of,
        )

        edges = edges_from_limits(bucket_limits, low=float(min), high=float(max))
        moments = moments_of(float(num), float(sum), float(sum_squares))
        bins = {"edges": edges if len(bucket_limits) else [], "counts": bucket_counts}
        record = histogram_record(name_of(tag), t=0.0, step=0, moments=moments, **bins)
        self._write(record, tag, global_step, walltime)

    # -- pictures, words, sound -------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add an image: bytes, or floats between 0 and 1."""
        from epochal.integrations import tensorboard_values as made

        self._add(tag, made.image(img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add a batch of images as a grid of eight columns."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Add an image with boxes: left, top, right and bottom in pixels.

        The boxes are drawn over the image when it is shown, so ``rescale`` has no effect.
        """
        from epochal.integrations import tensorboard_values as made

        image = made.image(img_tensor, dataformats, box_tensor, labels)
        self._add(tag, image, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Add a Matplotlib figure, or a list of them; ``close`` closes them afterwards."""
        figures = figure if isinstance(figure, list) else [figure]
        images: list[Sample] = [Image(each) for each in figures]
        self._add(tag, images if isinstance(figure, list) else images[0], global_step, walltime)
        if close:
            from matplotlib import pyplot

            for each in figures:
                pyplot.close(each)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Add the videos of an N×T×C×H×W array."""
        from epochal.integrations import tensorboard_values as made

        self._add(tag, made.videos(vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Add a sound of one channel, with values between -1 and 1."""
        from epochal.integrations import tensorboard_values as made

        self._add(tag, made.audio(snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add a text, which is shown as Markdown."""
        self._add(tag, Markdown(text_string), global_step, walltime)

    # -- models -----------------------------------------------------------------------------------

    def add_onnx_graph(self, prototxt: str) -> None:
        """Keep an ONNX file."""
        from epochal.exchange.imports.tfevents_event import KeptFile

        file = KeptFile(Path(prototxt).read_bytes(), "application/onnx")
        self._add(Path(prototxt).name, file, 0)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Draw a model by its structure; the other arguments have no effect."""
        draw_model(self._open(), model)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Keep points with their labels and pictures as the files that the projector takes."""
        from epochal.integrations import tensorboard_values as made

        step = 0 if global_step is None else int(global_step)
        files = made.projector_files(mat, metadata, label_img, metadata_header)
        # The folder that torch gives an embedding.
        tag = name_of(tag).replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")
        for name, file in files.items():
            self._add(f"{step:05d}/{tag}/{name}", file, step)

    # -- curves, charts, meshes -------------------------------------------------------------------

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a precision-recall curve; labels are 0 or 1, predictions 0 to 1."""
        from epochal.integrations import tensorboard_values as made

        curve = made.pr_curve(labels, predictions, num_thresholds, weights)
        self._add(tag, curve, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a precision-recall curve that was computed before."""
        from epochal.integrations import tensorboard_values as made

        positives = (true_positive_counts, false_positive_counts)
        negatives = (true_negative_counts, false_negative_counts)
        curve = made.raw_curve(*positives, *negatives, precision, recall)
        self._add(tag, curve, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Add a chart of several series to the board of ``add_custom_scalars``."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Add a chart of a series between two others to the board of ``add_custom_scalars``."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: Mapping[str, Any]) -> None:
        """Add charts to the board ``custom scalars`` of the project, below their categories.

        ``layout`` has categories, titles, and the type and the tags of each chart.
        """
        from epochal.exchange.imports.tfevents_event import LAYOUT_BOARD, layout_board
        from epochal.integrations import tensorboard_values as made

        for category, charts in made.checked_layout(layout).items():
            self._layout.setdefault(category, {}).update(charts)
        save_with_run(self._open(), LAYOUT_BOARD, lambda: layout_board(self._layout))

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Keep meshes or clouds of points (B×N×3 arrays) as a NumPy file."""
        from epochal.integrations import tensorboard_values as made

        mesh = made.mesh(vertices, colors, faces, config_dict)
        self._add(f"{name_of(tag)}.npz", mesh, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Add hyperparameters to the run's configuration, and the metrics they led to.

        A later call with other hyperparameters makes a run of its own beside this one.
        """
        hparams = checked_hparams(hparam_dict, metric_dict)
        metrics = {name_of(tag): one_number(value) for tag, value in metric_dict.items()}
        step = 0 if global_step is None else int(global_step)
        folder = self._hparams_folder(run_name)
        is_own = self._hparams in (None, hparams) or folder == self._folder
        if is_own:
            self._hparams = hparams
        with nullcontext(self._open()) if is_own else init_in(folder, companion=False) as run:
            run.config.update(hparams)
            if metrics:
                run.log(metrics, step)

    # -- the run ----------------------------------------------------------------------------------

    def get_logdir(self) -> str | os.PathLike[str]:
        """The folder of the run, as it was given."""
        return self.log_dir

    def flush(self) -> None:
        """Wait until everything added so far is on the disk."""
        if self._run is not None:
            self._open().flush()

    def close(self) -> None:
        """Finish the run, unless another writer of the folder is open; adding opens it again."""
        self.__exit__(None, None, None)

    def __exit__(self, exc_type: Any, exc_val: BaseException | None, exc_tb: Any) -> None:
        if self._run is None:
            return
        self._run = self._log = self.file_writer = self.all_writers = None
        with _LOCK:
            _HOLDERS[self._folder].discard(self)
            run = None if _HOLDERS[self._folder] else _RUNS.pop(self._folder, None)
        if run is not None:
            run.__exit__(exc_type, exc_val, exc_tb)

    def _get_file_writer(self) -> FileWriter:
        """The writer of TensorBoard's own messages; opens the run again after ``close``."""
        self._open()
        assert self.file_writer is not None
        return self.file_writer

    def _open(self, purge_step: int | None = None) -> Run:
        """The run; opened again when it was closed, here or by another writer.

        ``purge_step`` begins a new attempt that hides older records from this step on.
        """
        run = self._run
        if purge_step is None and run is not None and run.state != "finished":
            return run
        has_others = run is None and _has_event_files(self._folder)
        with _LOCK:
            run = _RUNS.get(self._folder)
            if run is not None and purge_step is not None:
                run.finish(reason=f"another writer takes over at step {purge_step}")
            if run is None or run.state == "finished":
                run = init_in(self._folder, resume_step=purge_step, report_to=self._report_to)
            _RUNS[self._folder] = self._run = run
            _HOLDERS[self._folder].add(self)
        self._log = run.log
        if self.file_writer is None:
            log_dir = str(self.log_dir)
            self.file_writer = FileWriter(log_dir, self._open)
            self.all_writers = {log_dir: self.file_writer}
        if has_others:
            recorder_of(run).console.notice(
                f"{self._folder} has event files of TensorBoard, which are not part of this run:"
                f" 'epochal import {self._folder}' copies them into a run of their own."
            )
        return run

    def _step(self, tag: str, global_step: Any) -> int:
        """The step of a call: the given one, or how many calls of the tag had none before."""
        if global_step is not None:
            return int(global_step)
        self._counts[tag] += 1
        return self._counts[tag] - 1

    def _add_numbers(
        self, numbers: Mapping[str, Any], tag: str, global_step: Any, walltime: float | None
    ) -> None:
        """Write points of several series; tensors on a GPU are not waited for."""
        run, step = self._open(), self._step(tag, global_step)
        if walltime is None:
            run.log(numbers, step)
            return
        flat = CallValues(recorder_of(run).values).metrics(numbers)
        run.write({"log": "metrics", "t": float(walltime), "step": step, "m": flat})

    def _write(self, record: Record, tag: str, global_step: Any, walltime: float | None) -> None:
        """Write a record, whose time and step are those of the call."""
        at = now() if walltime is None else float(walltime)
        self._open().write({**record, "t": at, "step": self._step(tag, global_step)})

    def _add(
        self,
        tag: str,
        sample: Sample | list[Sample],
        global_step: Any,
        walltime: float | None = None,
    ) -> None:
        """Write a picture, a sound, a table, a text or a file, or a list of them."""
        run, step = self._open(), self._step(tag, global_step)
        recorder_of(run).write_sample(name_of(tag), sample, step, t=walltime)

    def _hparams_folder(self, run_name: str | None) -> Path:
        """Where another set of hyperparameters is recorded.

        TensorBoard puts it into a folder within the writer's. Readers of runs do not look into
        runs, so ours lies beside the writer's; a ``run_name`` that leads elsewhere is followed.
        """
        folder = self._folder
        inner = Path(os.path.normpath(folder / (run_name or str(time.time()))))
        if inner == folder or folder not in inner.parents:
            return inner
        return folder.with_name(f"{folder.name}_{'_'.join(inner.relative_to(folder).parts)}")


def _has_event_files(folder: Path) -> bool:
    """Whether a folder that is no run of ours yet has event files."""
    if not folder.is_dir() or is_run_folder(folder):
        return False
    return any("tfevents" in path.name for path in folder.iterdir())


def name_of(tag: Any) -> str:
    """The name under which a tag is recorded; raises TypeError for what is no text."""
    if not isinstance(tag, str):
        raise TypeError(f"tag must be a text, not {type(tag).__name__}.")
    return tag or "unnamed"


def one_number(value: Any) -> Any:
    """A plain number; a tensor on a GPU stays there. Raises what torch raises for anything else."""
    if isinstance(value, str):
        value = float(value)
    count = 1 if getattr(value, "ndim", None) == 0 else element_count(value)
    if count is None and not isinstance(value, Number):
        raise NotImplementedError(f"Got {type(value)}, but a number or a tensor is expected.")
    if count not in (None, 1):
        raise AssertionError(f"Tensor should contain one element (0 dimensions); it has {count}.")
    if getattr(value, "is_cuda", False):
        return value
    number = value.item() if hasattr(value, "item") else value
    return number if type(number) in (float, int) else float(number)


def checked_hparams(hparams: Any, metrics: Any) -> dict[str, Any]:
    """The hyperparameters as plain values; raises TypeError or ValueError as torch does."""
    if type(hparams) is not dict or type(metrics) is not dict:
        raise TypeError("hparam_dict and metric_dict should be dictionary.")
    return {name: _plain_hparam(name, value) for name, value in hparams.items()}


def _plain_hparam(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if element_count(value) == 1 and hasattr(value, "item"):
        return value.item()
    raise ValueError(f"hyperparameter {name!r} must not be a {type(value).__name__}.")


def draw_model(run: Run, model: Any) -> None:
    """Record a picture of a model's structure."""
    from epochal.api.monitor import log_picture
    from epochal.torch import picture_of

    log_picture(run, model, picture_of(model))


if TYPE_CHECKING:
    from epochal.exchange.imports.tfevents_event import Tags


class FileWriter:
    """What ``SummaryWriter.file_writer`` is: takes events and summaries.

    ``open_run`` gives the run to write to. With a step, it begins a new attempt that hides older
    records from this step on. ``prefix`` is put before every name.
    """

    def __init__(
        self, log_dir: str, open_run: Callable[[int | None], Run], *, prefix: str = ""
    ) -> None:
        self._log_dir = log_dir
        self._prefix = prefix
        self._open_run = open_run
        self._tags: Tags | None = None

    def get_logdir(self) -> str:
        """The folder that is written to."""
        return self._log_dir

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an ``Event`` message."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.write_serialized(event.SerializeToString())

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a ``Summary`` message."""
        at = pb.double(1, time.time() if walltime is None else walltime)
        step = b"" if global_step is None else pb.whole(2, int(global_step))
        self.write_serialized(at + step + pb.chunk(5, summary.SerializeToString()))

    def flush(self) -> None:
        """Wait until what was written is on the disk."""
        self._open_run(None).flush()

    close = flush  # the ``SummaryWriter`` closes

    def write_serialized(self, data: bytes) -> None:
        """Write an ``Event`` message that is encoded already."""
        from epochal.exchange.imports.tfevents_event import Tags, read_event  # it needs NumPy

        self._tags = self._tags or Tags()
        event = read_event(data, self._tags)
        run = self._open_run(event.step if event.is_restart else None)
        if event.points:
            points = {f"{self._prefix}{name}": value for name, value in event.points}
            run.write({"log": "metrics", "t": event.t, "step": event.step, "m": points})
        for record in event.records:
            if self._prefix and "name" in record and record["log"] != "event":
                record["name"] = f"{self._prefix}{record['name']}"
            run.write(record)
        for name, sample in event.samples:
            named = f"{self._prefix}{name}"
            recorder_of(run).write_sample(named, sample, event.step, t=event.t)
