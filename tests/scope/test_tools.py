"""No tool for agents reaches a run outside of the folder that it was started on.

Every tool is called with each way to name a run in each of its arguments. A tool or argument that
is new is called without a change of this file.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from epochal.server.mcp import make_server
from epochal.store.local.catalog import folder_store
from tests.scope.marked import Mark, MarkedRun, Word, make_world

Arguments = dict[str, Any]
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says, and whether it refuses."""

    is_refusal: bool
    text: str

    def about(self, word: str) -> tuple[bool, str]:
        """A refusal without the word that was asked, and without names that are similar."""
        if not self.is_refusal:
            return False, ""
        return True, self.text.replace(word, "WORD").partition(" Did you mean")[0]


def calls(schema: Schema, own: MarkedRun, word: str) -> Iterator[Arguments]:
    """The arguments of a tool with a word in each text and list, alone and beside a run that may
    be seen.
    """
    takes: dict[str, Schema] = schema["properties"]
    usual = {
        name: _usual(name, one, own)
        for name, one in takes.items()
        if name in schema.get("required", ()) or name in ("run", "timeout_s")
    }
    for name, one in takes.items():
        if one["type"] == "string" and "enum" not in one:
            yield {**usual, name: word}
        elif one["type"] == "array":
            for texts in ([word, word], [own.id, word], [word, own.id]):
                yield {**usual, name: texts}


def _usual(name: str, schema: Schema, own: MarkedRun) -> Any:
    if schema["type"] == "array":
        return [own.id, own.id]
    if schema["type"] == "string":
        return "loss" if name == "metric" else own.id
    return schema.get("minimum", 0)


def _shows(answer: Answer, mark: Mark) -> bool:
    return mark.text in answer.text or str(mark.number) in answer.text


def test_tools_show_the_runs_of_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path)
    monkeypatch.chdir(world.root.parent)
    # An agent was started on the runs of one project; the other project lies beside it.
    own, beside = world.alpha[0], world.beta[0]
    hidden = [*world.marks_of(["beta"]), *world.marks_outside]
    words = [Word(own.id), *world.stray_words(), *world.words(beside)]
    seen = set()

    async def main() -> None:
        with folder_store(world.root / "alpha") as store:
            async with Client(make_server(store)) as client:

                async def say(tool: str, arguments: Arguments) -> Answer:
                    found = await client.call_tool(tool, arguments)
                    text = json.dumps([one.model_dump() for one in found.content], default=str)
                    return Answer(bool(found.is_error), text)

                tools = (await client.list_tools()).tools
                for tool, word in itertools.product(tools, words):
                    both = [
                        calls(tool.input_schema, own, text)
                        for text in (word.text, word.twin or word.text)
                    ]
                    for arguments, twin in zip(*both, strict=True):
                        answer = await say(tool.name, arguments)
                        leak = [mark for mark in hidden if _shows(answer, mark)]
                        assert not leak, f"{tool.name}({arguments}) → {answer.text}"
                        if _shows(answer, own.mark):
                            seen.add(tool.name)
                        if word.twin is not None:
                            other = await say(tool.name, twin)
                            told = answer.about(word.text), other.about(word.twin)
                            assert told[0] == told[1], f"{tool.name}({arguments})"

    anyio.run(main)
    # Where the mark of the run stands in the answer, another run would have been noticed too.
    assert seen >= {"list_runs", "show_run", "series", "compare", "why"}
