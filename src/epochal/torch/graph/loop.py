"""A body that is run several times, its output its next input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import Tensor, nn

from epochal.errors import UsageError
from epochal.torch.graph.exporting import is_exporting

Until = Literal["for", "while", "until"]
Condition = Callable[[Any], Any]


class Loop(nn.Module):
    """Runs `body` a fixed number of times, or while or until a condition on the stream holds.

    'while' asks before every iteration, 'until' after each. The condition answers with a truth or
    with a tensor of one element, and reading one on a GPU waits for it. A body with a method
    `trace()` is asked after each iteration for a tensor, or for several by name; what it gives is
    kept, detached, until the next call.
    """

    def __init__(
        self, body: nn.Module, mode: Until, count: int, condition: Condition | None = None
    ) -> None:
        super().__init__()
        self.body = body
        self.mode = mode
        self.count = count
        self.condition = condition
        self.iterations = 0
        self.traces: dict[str, list[Tensor]] = {}

    def forward(self, stream: Any, *references: Any) -> Any:
        """Return the stream after the last iteration."""
        traces: dict[str, list[Tensor]] = {}
        done = 0
        while done < self.count and not (self.mode == "while" and not self._holds(stream)):
            stream = self.body(stream, *references)
            done += 1
            self._keep_trace(traces)
            if self.mode == "until" and self._holds(stream):
                break
        if not is_exporting():
            self.iterations, self.traces = done, traces
        return stream

    def extra_repr(self) -> str:
        """How often the body runs."""
        return f"{self.mode} {self.count}" if self.mode == "for" else f"{self.mode}, ≤ {self.count}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "traces": {}}

    def _holds(self, stream: Any) -> bool:
        assert self.condition is not None
        answer = self.condition(stream)
        if isinstance(answer, Tensor) and answer.numel() != 1:
            raise UsageError(
                f"The condition of a loop gave {answer.numel()} values; reduce them to one, "
                "with .all() or .any() for instance."
            )
        return bool(answer)

    def _keep_trace(self, traces: dict[str, list[Tensor]]) -> None:
        trace = getattr(self.body, "trace", None)
        if not callable(trace):
            return
        emitted = trace()
        if emitted is None:
            return
        named = emitted if isinstance(emitted, Mapping) else {"": emitted}
        for name, value in named.items():
            traces.setdefault(name, []).append(value.detach())
