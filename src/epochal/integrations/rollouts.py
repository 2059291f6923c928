"""Tables of prompts and completions, as trainers of language models log them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from epochal.exchange.media.types import Table

# The column that is added to a table of completions that says nothing about their length.
LENGTH = "length_chars"


def readable_rollouts(data: Any) -> Table:
    """A table of completions with conversations as text and the lengths of the completions.

    Takes a table or a data frame. One without the columns ``prompt`` and ``completion`` stays as it
    is.
    """
    table = data if isinstance(data, Table) else Table(data)
    if not {"prompt", "completion"} <= set(table.columns):
        return table
    made = Table(table.rows, table.columns, chart=table.chart, caption=table.caption)
    texts = [made.columns.index("prompt"), made.columns.index("completion")]
    for row in made.rows:
        for place in texts:
            row[place] = conversation_text(row[place])
    if not any("length" in name or "tokens" in name for name in made.columns):
        made.columns.insert(texts[1] + 1, LENGTH)
        for row in made.rows:
            row.insert(texts[1] + 1, len(str(row[texts[1]])))
    return made


def completions_of(trainer: Any) -> Table | None:
    """The completions that a trainer of TRL would log now; None if it logs none.

    TRL sends them to W&B and Trackio only. GRPO and RLOO have rewards and advantages, distillation
    has neither.
    """
    logs = getattr(trainer, "_logs", None)
    if not getattr(trainer, "log_completions", False) or not logs or not logs.get("prompt"):
        return None
    columns: dict[str, Any] = {"prompt": logs["prompt"], "completion": logs["completion"]}
    columns |= {**logs.get("rewards", {}), **logs.get("extra", {})}
    if logs.get("advantages"):
        columns["advantage"] = logs["advantages"]
    columns |= _pictures(logs.get("images") or ())
    size = len(logs["prompt"])
    return readable_rollouts(
        Table({name: values for name, values in columns.items() if len(values) == size})
    )


def tables_by_step(rows: Sequence[tuple[Any, Any, Any]]) -> list[tuple[int, Table]]:
    """A table for each step of rows of step, prompt and completion."""
    return [
        (int(step), readable_rollouts(Table([row[1:] for row in group], ["prompt", "completion"])))
        for step, group in itertools.groupby(rows, key=operator.itemgetter(0))
    ]


def _pictures(images: Any) -> dict[str, list[Any]]:
    """One column for each picture of a prompt: ``image``, ``image_1`` and so on."""
    lists = [list(pictures or ()) for pictures in images]
    return {
        f"image_{number}" if number else "image": [
            pictures[number] if number < len(pictures) else None for pictures in lists
        ]
        for number in range(max(map(len, lists), default=0))
    }


def conversation_text(messages: Any) -> Any:
    """A conversation as text: one message by what it says, several with their roles."""
    is_conversation = isinstance(messages, (list, tuple)) and all(
        isinstance(message, Mapping) for message in messages
    )
    if not is_conversation:
        return messages
    said = [(str(one.get("role", "")), "\n".join(_parts(one))) for one in messages]
    if len(said) == 1:
        return said[0][1]
    return "\n\n".join(f"{role}: {text}" for role, text in said)


def _parts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    for block in content if isinstance(content, (list, tuple)) else [content]:
        if isinstance(block, Mapping):
            yield str(block.get("text", f"[{block.get('type')}]"))
        elif block is not None:
            yield str(block)
    for call in message.get("tool_calls") or ():
        yield f"[tool call] {call}"
