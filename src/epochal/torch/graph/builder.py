"""The verbs that write a graph.

Each verb continues from where the last one left the stream. What is wrong is noted and goes on, so
that `build()` can say all of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import nn

from epochal.console.messages import msg
from epochal.errors import UsageError
from epochal.torch.graph.draft import Draft, Initial, Use
from epochal.torch.graph.graph import Graph
from epochal.torch.graph.names import name_fault
from epochal.torch.graph.node import Kind, kind_of
from epochal.torch.graph.node_modules import (
    Condition,
    Function,
    Gate,
    Loop,
    Map,
    Merge,
    MergeOp,
    Pieces,
    Switch,
    title_of,
)

Part = nn.Module | Callable[..., Any]


class FlowBuilder:
    """Writes a graph verb by verb; `build()` gives it as a module.

    Parts are modules, or functions without parameters. `FlowBuilder.start(part)` begins with a
    part, `FlowBuilder.start()` with the bare input.
    """

    def __init__(self) -> None:
        self._draft = Draft()
        self._streams = [self._draft.add_input("input")]
        self._tag_at: int | None = self._streams[0]
        self._use_at: int | None = None
        self._label: str | None = None
        self._is_verbose = False

    @classmethod
    def start(cls, part: Part | None = None) -> FlowBuilder:
        """Begin a graph with its first part, or with the bare input."""
        builder = cls()
        return builder if part is None else builder.through(part)

    def through(self, part: Part) -> FlowBuilder:
        """Send the stream through a part."""
        return self._continue(self._add_part("through", part))

    def fork(self, part: Part) -> FlowBuilder:
        """Add a side branch; the stream stays as it is, and the next `tag` names the branch."""
        branch = self._add_part("fork", part)
        self._tag_at = self._use_at = branch
        return self

    def also(self, part: Part) -> FlowBuilder:
        """Add what a part gives to the stream: a residual connection."""
        stream = self._stream("also")
        added = self._add_part("also", part)
        return self._continue(self._merged([stream, added], MergeOp.ADD), uses=added)

    def also_with(self, skip: Part, main: Part) -> FlowBuilder:
        """Add what two parts give: a residual connection whose skip side has a part too."""
        skipped = self._add_part("also_with", skip)
        added = self._add_part("also_with", main)
        return self._continue(self._merged([skipped, added], MergeOp.ADD), uses=added)

    def split(self, *parts: Part | Sequence[Part]) -> FlowBuilder:
        """Send the stream through two or more parts side by side, until `merge`."""
        chosen = self._several("split", parts)
        self._streams = [self._add_part("split", part) for part in chosen] or self._streams
        self._tag_at = self._use_at = None
        return self

    def merge(self, op: MergeOp | str = MergeOp.ADD) -> FlowBuilder:
        """Make one stream of several, by 'add' or 'mean'."""
        if len(self._streams) < 2:
            return self._fault("merge needs several streams, after a split")
        try:
            operation = MergeOp(op)
        except ValueError:
            return self._fault(f"merge takes 'add' or 'mean', got {op!r}")
        return self._continue(self._merged(self._streams, operation), uses=None)

    def tag(self, name: str) -> FlowBuilder:
        """Name what the last verb gave; a tag is unique in its graph."""
        if self._tag_at is None:
            return self._fault(f"tag({name!r}) needs one stream; after a split use tag_group")
        if self._draft.claim(name, what="tag"):
            self._draft.tags[name] = self._tag_at
            self._draft.nodes[self._tag_at].tags.append(name)
        return self

    def tag_group(self, name: str) -> FlowBuilder:
        """Name the streams of a split together: name_0, name_1 and so on."""
        if len(self._streams) < 2:
            return self._fault(f"tag_group({name!r}) needs several streams, after a split")
        members = tuple(f"{name}_{number}" for number in range(len(self._streams)))
        free = [self._draft.claim(one, what="tag") for one in (name, *members)]
        if all(free):
            self._draft.groups[name] = members
            for member, stream in zip(members, self._streams, strict=True):
                self._draft.tags[member] = stream
                self._draft.nodes[stream].tags.append(member)
        return self

    def internal(self, *names: str) -> FlowBuilder:
        """Keep tags from being read by a graph around this one, as a leading '_' does."""
        self._draft.internal.update(names)
        return self

    def label(self, name: str) -> FlowBuilder:
        """Name the graph; inside another one its metrics appear as 'name.metric'."""
        fault = name_fault(name, what="label")
        if fault is not None:
            return self._fault(fault)
        self._label = name
        return self

    def verbose(self, on: bool = True) -> FlowBuilder:
        """Have `build()` print the graph it made: its tree and its parameters."""
        self._is_verbose = on
        return self

    def input(self, *names: str) -> FlowBuilder:
        """Declare more inputs of the graph, passed after the first or by name; read by `using`."""
        for name in names:
            if self._draft.claim(name, what="input"):
                self._draft.add_input(name)
        return self

    def using(self, *names: str, initial: Initial | None = None) -> FlowBuilder:
        """Pass tagged values or inputs to the last part, after the stream.

        A tag that is written further back is read directly. A tag of this part or further on is
        read as it was in the call before. In the first call it is `initial(stream)`, or zeros in
        the shape of the stream.
        """
        if self._use_at is None:
            return self._fault(
                f"using({', '.join(map(repr, names))}) must follow a single part: through, fork, "
                "also, loop, switch, gate or map"
            )
        self._draft.nodes[self._use_at].uses.extend(Use(name, initial) for name in names)
        return self

    def loop(self, body: Part) -> LoopBuilder:
        """Run a body several times; say how often with for_n, while_cond or until_cond."""
        return LoopBuilder(self, body)

    def switch(self, router: Part, *branches: Part | Sequence[Part]) -> FlowBuilder:
        """Run the one branch whose number the router gives; `using` feeds the router."""
        return self._choose("switch", Switch, router, branches)

    def gate(self, router: Part, *experts: Part | Sequence[Part]) -> FlowBuilder:
        """Mix all experts by the router's weights; `using` feeds the router."""
        return self._choose("gate", Gate, router, experts)

    def map(self, body: Part) -> MapBuilder:
        """Apply a body to pieces; say which with each, over or slices."""
        return MapBuilder(self, body)

    def build(self) -> Graph:
        """Return the graph, or raise one ValueError that lists everything that is wrong."""
        if len(self._streams) != 1:
            self._fault(f"{len(self._streams)} streams are left unmerged at the end")
        noted = len(self._draft.faults)
        wiring, modules, initials = self._draft.wired(self._streams[0])
        faults = list(dict.fromkeys(self._draft.faults))
        del self._draft.faults[noted:]
        if not faults:
            graph = Graph(wiring, modules, label=self._label, initials=initials)
            faults = graph.faults()
            if not faults:
                if self._is_verbose:
                    msg("%s\n%s", graph.tree_summary(), graph.param_summary())
                return graph
        lines = [f"  {number}. {fault}" for number, fault in enumerate(faults, 1)]
        raise UsageError("\n".join(["The graph cannot be built:", *lines]))

    def _add_part(
        self, verb: str, part: Part, *, kind: Kind | None = None, title: str | None = None
    ) -> int:
        module = self._module(verb, part)
        chosen = kind or ("graph" if isinstance(module, Graph) else kind_of(module))
        return self._draft.add(title or title_of(module), chosen, module, [self._stream(verb)])

    def _merged(self, streams: list[int], op: MergeOp) -> int:
        return self._draft.add(op.value, "merge", Merge(op), list(streams))

    def _continue(self, node: int, *, uses: int | None = -1) -> FlowBuilder:
        self._streams = [node]
        self._tag_at = node
        self._use_at = node if uses == -1 else uses
        return self

    def _stream(self, verb: str) -> int:
        if len(self._streams) > 1:
            self._fault(f"{verb} needs one stream, there are {len(self._streams)}: merge them")
        return self._streams[0]

    def _module(self, verb: str, part: Any) -> nn.Module:
        if isinstance(part, nn.Module):
            return part
        if isinstance(part, type):
            self._fault(f"{verb} got the class {part.__name__}; write {part.__name__}(...)")
        elif isinstance(part, FlowBuilder):
            self._fault(f"{verb} got a builder; call its build()")
        elif callable(part):
            return Function(part)
        else:
            self._fault(f"{verb} takes modules or functions, got {type(part).__name__}")
        return nn.Identity()

    def _several(self, verb: str, parts: Iterable[Any]) -> list[Part]:
        given = list(parts)
        if len(given) == 1 and isinstance(given[0], (list, tuple, nn.ModuleList)):
            given = list(given[0])
        if len(given) < 2:
            self._fault(f"{verb} needs at least two parts, got {len(given)}")
        return given

    def _choose(
        self, verb: str, kind: type[Switch] | type[Gate], router: Part, parts: Iterable[Any]
    ) -> FlowBuilder:
        chosen = [self._module(verb, part) for part in self._several(verb, parts)]
        module = kind(self._module(verb, router), chosen)
        return self._continue(
            self._add_part(verb, module, kind="switch" if kind is Switch else "gate")
        )

    def _fault(self, sentence: str) -> FlowBuilder:
        self._draft.faults.append(sentence)
        return self

    def _looped(
        self, body: Part, mode: Any, count: int, condition: Condition | None = None
    ) -> FlowBuilder:
        if not _is_count(count):
            self._fault(f"a loop needs a number of iterations of at least 1, got {count!r}")
        if mode != "for" and not callable(condition):
            self._fault(f"a loop's condition must be callable, got {type(condition).__name__}")
        module = Loop(self._module("loop", body), mode, count, condition)
        return self._continue(self._add_part("loop", module, kind="loop"))

    def _mapped(
        self, body: Part, pieces: Pieces, *, slices: int = 0, batched: bool, over: str | None = None
    ) -> FlowBuilder:
        if pieces == "slices" and not _is_count(slices):
            self._fault(f"map().slices needs a number of at least 1, got {slices!r}")
            slices = 1
        module = Map(self._module("map", body), pieces, slices=slices, batched=batched)
        node = self._add_part("map", module, kind="map")
        if over is not None:
            place = self._draft.tags.get(over)
            if place is None:
                self._fault(f"map().over({over!r}) needs a tag that is written before it")
            else:
                self._draft.nodes[node].streams = [place]
        return self._continue(node)


class LoopBuilder:
    """A loop that still has to be told how often it runs."""

    def __init__(self, flow: FlowBuilder, body: Part) -> None:
        self._flow = flow
        self._body = body

    def for_n(self, count: int) -> FlowBuilder:
        """Run the body `count` times."""
        return self._flow._looped(self._body, "for", count)

    def while_cond(self, condition: Condition, max_iterations: int) -> FlowBuilder:
        """Run the body while the condition on the stream holds, asked before each iteration."""
        return self._flow._looped(self._body, "while", max_iterations, condition)

    def until_cond(self, condition: Condition, max_iterations: int) -> FlowBuilder:
        """Run the body until the condition on the stream holds, asked after each iteration."""
        return self._flow._looped(self._body, "until", max_iterations, condition)


class MapBuilder:
    """A map that still has to be told what its pieces are."""

    def __init__(self, flow: FlowBuilder, body: Part, *, batched: bool = False) -> None:
        self._flow = flow
        self._body = body
        self._batched = batched

    def batched(self) -> MapBuilder:
        """Call the body once for all pieces, which must be treated alike."""
        return MapBuilder(self._flow, self._body, batched=True)

    def each(self) -> FlowBuilder:
        """Apply the body to every row of the stream's first dimension."""
        return self._flow._mapped(self._body, "each", batched=self._batched)

    def over(self, tag: str) -> FlowBuilder:
        """Apply the body to every row of a tagged value, which becomes the stream."""
        return self._flow._mapped(self._body, "over", batched=self._batched, over=tag)

    def slices(self, count: int) -> FlowBuilder:
        """Apply the body to `count` equal slices of the stream's last dimension."""
        return self._flow._mapped(self._body, "slices", slices=count, batched=self._batched)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 1
