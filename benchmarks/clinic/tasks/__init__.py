"""The tasks by name, in the order of their files."""

from __future__ import annotations

from benchmarks.clinic.task import Task
from benchmarks.clinic.tasks import (
    experts,
    generative,
    play,
    ranks,
    retrieval,
    tables,
    text,
    unseen,
    vision,
)

TASKS: dict[str, type[Task]] = {
    task.name: task
    for module in (vision, text, tables, generative, retrieval, play, experts, ranks)
    for task in module.TASKS
}
UNSEEN: dict[str, type[Task]] = {task.name: task for task in unseen.TASKS}
