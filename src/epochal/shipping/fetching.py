"""Fetches a run from a hub into a folder, as often as wanted: what is there already stays."""

from __future__ import annotations

import os
from pathlib import Path

from epochal.atomic_file import replaced_file
from epochal.errors import UsageError
from epochal.journal.layout import (
    PartName,
    RunFolder,
    create_run_folder,
    parse_part_name,
    read_json,
    run_folders,
    slugify,
    write_json,
)
from epochal.shipping.client import HubClient
from epochal.shipping.protocol import FileKind, RunState, is_file_name
from epochal.shipping.shipper import HUB_FILE, end_of_lines


def fetch_run(client: HubClient, run_id: str, root: Path) -> RunFolder:
    """Copy what the hub has of a run and ``root`` has not; the folder of the run.

    A copy of a run that is recorded on this machine is never touched: its journal is the truth.
    """
    state = client.state(run_id)
    folder = _folder_of(client, state, root)
    for name, size in state.blobs.items():
        _fetch_file(client, state, folder, "blobs", name, size)
    for stem in state.parts:
        _fetch_part(client, state, folder, stem)
    for name, size in state.segments.items():
        _fetch_file(client, state, folder, "segments", name, size)
        part = parse_part_name(name, ".parquet")
        if part is not None:
            folder.part_path(part).unlink(missing_ok=True)
    if state.labels:
        write_json(folder.labels, state.labels)
    return folder


def _folder_of(client: HubClient, state: RunState, root: Path) -> RunFolder:
    for folder in run_folders(root):
        if not folder.identity.is_file() or read_json(folder.identity).get("id") != state.id:
            continue
        kept = read_json(folder.path / HUB_FILE) if (folder.path / HUB_FILE).is_file() else {}
        if kept.get("fetched_from") != client.url:
            raise UsageError(
                f"{folder.path} is the run {state.id} already, and was not fetched from"
                f" {client.url}: it is left as it is."
            )
        write_json(folder.identity, state.identity)
        return folder
    project = root / slugify(state.project)
    folder, _ = create_run_folder(project, str(state.identity.get("name", state.id)))
    write_json(folder.path / HUB_FILE, {"fetched_from": client.url})
    write_json(folder.identity, state.identity)
    return folder


def _fetch_part(client: HubClient, state: RunState, folder: RunFolder, stem: str) -> None:
    name = _part_name(stem)
    path = folder.part_path(name)
    have = _num_lines(path)
    if have:  # a copy that was interrupted ends within a line
        end, _ = end_of_lines(path, have)
        if end is not None and end < path.stat().st_size:
            os.truncate(path, end)
    while have < state.parts[stem].lines:
        lines = client.lines(state.id, stem, first=have)
        if not lines:
            return  # sealed meanwhile: the next fetch gets the segment
        with open(path, "ab") as file:
            file.write(lines)
        have += lines.count(b"\n")


def _fetch_file(
    client: HubClient, state: RunState, folder: RunFolder, kind: FileKind, name: str, size: int
) -> None:
    if not is_file_name(kind, name):
        raise UsageError(f"the hub names a file that no run has: {name!r}.")
    target = folder.path / kind / name
    if target.exists() and target.stat().st_size == size:
        return
    target.parent.mkdir(exist_ok=True)
    with replaced_file(target) as temporary, open(temporary, "wb") as out:
        offset = 0
        while offset < size:
            piece = client.file(state.id, kind, name, offset=offset)
            if not piece:
                raise UsageError(f"{kind}/{name} became shorter on the hub while it was fetched.")
            out.write(piece)
            offset += len(piece)


def _part_name(stem: str) -> PartName:
    name = parse_part_name(f"{stem}.jsonl", ".jsonl")
    if name is None or name.stem != stem:
        raise UsageError(f"the hub names a part that no run has: {stem!r}.")
    return name


def _num_lines(path: Path) -> int:
    try:
        with open(path, "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0
