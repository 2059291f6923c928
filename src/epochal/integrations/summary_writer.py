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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from epochal.errors import RunFinishedError
from epochal.integrations.run_writer import (
    RunWriter,
    checked_hparams,
    draw_model,
    name_of,
    one_number,
)
from epochal.media.types import Image, Markdown, Sample
from epochal.run.board import save_with_run
from epochal.run.start import init_in
from epochal.settings import read_settings


class SummaryWriter(RunWriter):
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
        super().__init__(log_dir, report_to)
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
        from epochal.imports.histogram import edges_from_limits, histogram_record, moments_of

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
        from epochal.imports.tfevents_event import KeptFile

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
        from epochal.imports.tfevents_event import LAYOUT_BOARD, layout_board
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
