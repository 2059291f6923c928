"""``epochal manage``: clean up, repair and rename runs."""

from __future__ import annotations

from epochal.cli.command import Group

command = Group(
    "manage",
    sections={
        "Commands": {
            "du": "show what fills the disk",
            "trash": "list, restore or erase deleted runs",
            "prune": "move old runs to the trash; lists them first",
            "pack": "seal finished runs, so that they are small and fast to read",
            "verify": "read everything of a run, and report what is damaged",
            "repair": "verify a run, and repair what is damaged",
            "rename": "show a run under another name",
            "hide": "leave runs out of lists, or show them again",
            "checkpoints": "list the checkpoints of a run",
        }
    },
    modules={
        "rename": "labels",
        "hide": "labels",
        **dict.fromkeys(("verify", "repair"), "repair"),
        **dict.fromkeys(("du", "trash", "prune"), "trash"),
    },
    help="Clean up, repair and rename runs, and see what fills the disk.",
)
