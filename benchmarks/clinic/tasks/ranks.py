"""Trainings over two ranks with DistributedDataParallel."""

from __future__ import annotations

from benchmarks.clinic.tasks.text import CharLstm
from benchmarks.clinic.tasks.vision import DigitsMlp


class DdpDigits(DigitsMlp):
    name = "ddp_digits"
    optimizer = "momentum"
    lr = 0.06
    steps = 300
    world = 2


class DdpText(CharLstm):
    name = "ddp_text"
    steps = 300
    batch_size = 8
    typed = True
    world = 2


TASKS = (DdpDigits, DdpText)
