"""Aim, through its own package: into a repository on disk or on a tracking server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.sinks.keys import histogram_bins, keyed_scalars
from epochal.sinks.sink import (
    NUMBERS,
    Entry,
    NotHeldError,
    Sink,
    SinkContext,
    SinkOptions,
    option,
    require,
)

_MOST_BINS = 512
_IMAGES = ("png", "jpeg", "gif", "bmp", "webp")
# What Aim calls the formats of sounds.
_SOUNDS = {"audio/wav": "wav", "audio/flac": "flac", "audio/mpeg": "mp3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AimOptions(SinkOptions):
    """An Aim run in a repository."""

    aim_experiment: str | None = option("the experiment; default: the run's project")
    aim_repo: str | None = option(
        "a folder or an `aim://` address; default: Aim's own", is_path=True
    )
    aim_name: str | None = option("the name of the Aim run; default: the run's name")


class AimSink(Sink):
    """Tracks numbers, distributions, texts, images and sounds in one Aim run, whose hash is kept.

    Aim keeps one value per name and step: what is sent again replaces itself. It notes its own
    time for each.
    """

    name = "aim"
    summary = "An Aim run: numbers, distributions, texts, images and sounds."
    options = AimOptions
    extra = "aim"
    holds = (
        *(*NUMBERS, "histogram", "text", "option"),
        *(f"blob:image/{image}" for image in _IMAGES),
        *(f"blob:{sound}" for sound in _SOUNDS),
    )

    _context: SinkContext

    def __init__(self) -> None:
        self._aim: Any = None
        self._run: Any = None

    def open(self, context: SinkContext) -> bool:
        """Start the Aim run, or go on with it."""
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
        """Track everything in the record that Aim can store."""
        if entry.kind == "option":
            self._run["config", str(entry.record.get("name"))] = entry.record.get("value")
            return
        tracked = _TRACKED.get(entry.kind, AimSink._scalars)(self, entry)
        epoch = entry.record.get("epoch")
        for name, value in tracked.items():
            self._run.track(value, name=name, step=entry.step, epoch=_whole(epoch))

    def flush(self) -> dict[str, Any]:
        """The hash of the Aim run."""
        return {"hash": self._run.hash}

    def close(self, status: str | None) -> dict[str, Any]:
        """Close the Aim run."""
        if self._run is None:
            return {}
        state = self.flush()
        run, self._run = self._run, None
        if status is not None:
            run["status"] = status
        run.close()
        return state

    def _scalars(self, entry: Entry) -> dict[str, Any]:
        return dict(keyed_scalars(entry))

    def _histogram(self, entry: Entry) -> dict[str, Any]:
        counts, edges = histogram_bins(entry.record)
        if len(counts) > _MOST_BINS:
            raise NotHeldError(f"Aim holds at most {_MOST_BINS} bins.")
        distribution = self._aim.Distribution(hist=counts, bin_range=(edges[0], edges[-1]))
        return {str(entry.record.get("name")): distribution}

    def _text(self, entry: Entry) -> dict[str, Any]:
        return {str(entry.record.get("name")): self._aim.Text(str(entry.record.get("text", "")))}

    def _file(self, entry: Entry) -> dict[str, Any]:
        path, caption = (
            str(self._context.file(entry.record)),
            str(entry.record.get("caption") or ""),
        )
        sound = _SOUNDS.get(str(entry.record.get("media_type")))
        if sound is None:
            value = self._aim.Image(path, caption=caption)
        else:
            value = self._aim.Audio(path, format=sound, caption=caption)
        return {str(entry.record.get("name")): value}


_TRACKED: Mapping[str, Callable[[AimSink, Entry], dict[str, Any]]] = {
    "histogram": AimSink._histogram,
    "text": AimSink._text,
    "blob": AimSink._file,
}


def _whole(epoch: Any) -> int | None:
    return int(epoch) if isinstance(epoch, (int, float)) else None
