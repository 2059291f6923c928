"""``epochal hub``: share runs of several machines."""

from __future__ import annotations

from epochal.cli.command import Group

command = Group(
    "hub",
    sections={
        "Run a hub": {
            "serve": "receive runs from other machines and show them live",
            "token": "make, list and revoke the tokens of a hub",
            "share": "make a link that shows some runs to anybody who has it",
            "audit": "print who changed what, the newest first",
        },
        "Use a hub": {
            "push": "send runs to a hub; with --watch, as they grow",
            "pull": "fetch runs from a hub into the folder of runs",
        },
    },
    modules={
        **dict.fromkeys(("token", "share", "audit"), "hub_access"),
        **dict.fromkeys(("push", "pull"), "hub_transfer"),
        "serve": "serve",
    },
    help="Share runs of several machines: 'hub serve DIR' starts a hub, 'hub push' sends runs.",
)
