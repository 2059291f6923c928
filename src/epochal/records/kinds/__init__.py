"""Every kind of record, declared once; a new one is declared in the file of its concept."""

from __future__ import annotations

from collections.abc import Mapping

from epochal.records.kind import Kind
from epochal.records.kinds.lifecycle import LIFECYCLE
from epochal.records.kinds.machine import MACHINE
from epochal.records.kinds.samples import SAMPLES
from epochal.records.kinds.training import TRAINING

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (*LIFECYCLE, *TRAINING, *MACHINE, *SAMPLES)
}
