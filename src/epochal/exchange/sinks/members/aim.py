"""Aim, through its own package: into a repository on disk or on a tracking server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.exchange.sinks.keys import SampleLists, histogram_bins, keyed_scalars, plotly_figure
from epochal.exchange.sinks.sink import (
    NUMBERS,
    Entry,
    NotHeldError,
    Sink,
    SinkContext,
    SinkOptions,
    option,
    require,
)
from epochal.journal.blobs import PLOTLY

_MOST_BINS = 512
_IMAGES = ("png", "jpeg", "gif", "bmp", "webp")
# What Aim calls the formats of sounds.
_SOUNDS = {"audio/wav": "wav", "audio/flac": "flac", "audio/mpeg": "mp3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AimOptions(SinkOptions):
    """An Aim run in a repository."""

    aim_experiment: str | None = option("the experiment; default: the run's project")
    aim_repo: str | None = option(
        "a folder or an `aim://` address; default: as Aim finds it from the folder of the training",
        is_path=True,
    )
    aim_name: str | None = option("the name of the Aim run; default: the run's name")


class AimSink(Sink):
    """Tracks numbers, distributions, texts, images, sounds and figures in one Aim run.

    The hash of the run is kept. Aim keeps one value per name and step: what is sent again replaces
    itself. It notes its own time for each.
    """

    name = "aim"
    summary = "An Aim run: numbers, distributions, texts, images, audio and Plotly figures."
    options = AimOptions
    extra = "aim"
    holds = (
        *(*NUMBERS, "histogram", "text", "option"),
        *(f"blob:image/{image}" for image in _IMAGES),
        *(f"blob:{sound}" for sound in _SOUNDS),
        f"blob:{PLOTLY}",
    )
    labels = ("config",)

    _context: SinkContext

    def __init__(self) -> None:
        self._aim: Any = None
        self._run: Any = None
        self._lists = SampleLists(self._track)

    def open(self, context: SinkContext) -> bool:
        options: AimOptions = context.options
        self._aim = require("aim", self)
        self._context = context
        known = context.state.get("hash")
        if options.aim_repo is not None and "://" not in options.aim_repo:
            Path(options.aim_repo).mkdir(parents=True, exist_ok=True)
        self._run = self._aim.Run(
            run_hash=known,
            repo=options.aim_repo,
            experiment=options.aim_experiment or context.fact("project", "epochal"),
            # A run that was cut short leaves a lock behind, which only its owner may lift.
            force_resume=known is not None,
            log_system_params=False,
            capture_terminal_logs=False,
            system_tracking_interval=None,
        )
        self._run.name = options.aim_name or context.fact("name", context.folder.path.name)
        self._run["config"] = context.config
        self._run["epochal_id"] = context.fact("id", "")
        return True

    def write(self, entry: Entry) -> None:
        if entry.kind == "option":
            self._run["config", str(entry.record.get("name"))] = entry.record.get("value")
            return
        values = getattr(self, f"_on_{entry.kind}", keyed_scalars)(entry)
        self._lists.add(entry, values)

    def _track(self, entry: Entry, values: dict[str, Any]) -> None:
        epoch = entry.record.get("epoch")
        epoch = int(epoch) if isinstance(epoch, (int, float)) else None
        for name, value in values.items():
            self._run.track(value, name=name, step=entry.step, epoch=epoch)

    def flush(self) -> dict[str, Any]:
        """Track what was collected; the hash of the Aim run."""
        self._lists.flush()
        return {"hash": self._run.hash}

    def close(self, status: str | None) -> dict[str, Any]:
        if self._run is None:
            return {}
        self._lists = SampleLists(self._track)  # what was not flushed is sent again
        state = self.flush()
        run, self._run = self._run, None
        if status is not None:
            run["status"] = status
        run.close()
        return state

    def _on_histogram(self, entry: Entry) -> dict[str, Any]:
        counts, edges = histogram_bins(entry.record)
        if len(counts) > _MOST_BINS:
            raise NotHeldError(f"Aim holds at most {_MOST_BINS} bins.")
        distribution = self._aim.Distribution(hist=counts, bin_range=(edges[0], edges[-1]))
        return {str(entry.record.get("name")): distribution}

    def _on_text(self, entry: Entry) -> dict[str, Any]:
        return {str(entry.record.get("name")): self._aim.Text(str(entry.record.get("text", "")))}

    def _on_blob(self, entry: Entry) -> dict[str, Any]:
        path, media_type = self._context.file(entry.record), entry.record.get("media_type")
        caption = str(entry.record.get("caption") or "")
        if media_type == PLOTLY:
            value = self._aim.Figure(plotly_figure(path))
        elif media_type in _SOUNDS:
            value = self._aim.Audio(str(path), format=_SOUNDS[media_type], caption=caption)
        elif (entry.record.get("frames") or 1) > 1:
            raise NotHeldError("Aim would keep the first picture of a video.")
        else:
            value = self._aim.Image(str(path), caption=caption)
        return {str(entry.record.get("name")): value}
