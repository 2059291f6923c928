"""`FlowBuilder` writes a graph step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from epochal.errors import UsageError
from epochal.torch.graph.graph import Graph, label_faults
from epochal.torch.graph.wiring import (
    Function,
    Kind,
    Merge,
    MergeOp,
    Node,
    Wiring,
    kind_of,
    title_of,
)

Part = nn.Module | Callable[..., Any]


class FlowBuilder:
    """Writes a graph step by step; `build()` returns it as a module.

    Parts are modules, or functions without parameters. `FlowBuilder.start(part)` begins with a
    part, `FlowBuilder.start()` with the input itself. `build()` reports all mistakes at once.

    Args:
        parts: Parts to begin with, one after the other.
    """

    def __init__(self, *parts: object) -> None:
        if parts:
            raise UsageError("Begin a graph with FlowBuilder.start(part), not FlowBuilder(part).")
        self._nodes = [Node("input", "input")]
        self._modules: dict[int, nn.Module] = {}
        self._streams = [0]
        self._tags: dict[str, int] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._label: str | None = None
        self._faults: list[str] = []
        self._counts: Counter[str] = Counter()

    @classmethod
    def start(cls, part: Part | None = None) -> FlowBuilder:
        """Begin a graph with its first part, or with the input itself.

        Args:
            part: A module, or a function without parameters.
        """
        builder = cls()
        return builder if part is None else builder.through(part)

    def through(self, part: Part) -> FlowBuilder:
        """Send the stream through a part.

        Args:
            part: A module, or a function without parameters.
        """
        self._streams = [self._add_part("through", part)]
        return self

    def also(self, part: Part) -> FlowBuilder:
        """Add the output of a part to the stream: a residual connection.

        Args:
            part: A module, or a function without parameters.
        """
        stream = self._streams[0]
        self._streams = [self._merged([stream, self._add_part("also", part)], MergeOp.ADD)]
        return self

    def split(self, *parts: Part | Sequence[Part]) -> FlowBuilder:
        """Send the stream through two or more parts in parallel, until `merge`.

        Args:
            parts: The parts; each gets the stream.
        """
        given: list[Any] = list(parts)
        if len(given) == 1 and isinstance(given[0], (list, tuple, nn.ModuleList)):
            given = list(given[0])
        if len(given) < 2:
            self._faults.append(f"split needs at least two parts, got {len(given)}")
        self._streams = [self._add_part("split", part) for part in given] or self._streams
        return self

    def merge(self, op: MergeOp | str = MergeOp.ADD) -> FlowBuilder:
        """Make one stream of several, by 'add' or 'mean'.

        Args:
            op: ``add`` or ``mean``.
        """
        if len(self._streams) < 2:
            self._faults.append("merge needs several streams, after a split")
        elif op not in (*MergeOp, *(one.value for one in MergeOp)):
            self._faults.append(f"merge takes 'add' or 'mean', got {op!r}")
        else:
            self._streams = [self._merged(self._streams, MergeOp(op))]
        return self

    def tag(self, name: str) -> FlowBuilder:
        """Name the last output; a tag is unique in its graph.

        Args:
            name: The tag.
        """
        if len(self._streams) > 1:
            self._faults.append(f"tag({name!r}) needs one stream; after a split use tag_group")
        elif self._is_free(name):
            self._tag(name, self._streams[0])
        return self

    def tag_group(self, name: str) -> FlowBuilder:
        """Name the streams of a split together: name_0, name_1 and so on.

        Args:
            name: The name of the group.
        """
        members = tuple(f"{name}_{number}" for number in range(len(self._streams)))
        if len(members) < 2:
            self._faults.append(f"tag_group({name!r}) needs several streams, after a split")
        elif all(self._is_free(one) for one in (name, *members)):
            self._groups[name] = members
            for member, stream in zip(members, self._streams, strict=True):
                self._tag(member, stream)
        return self

    def label(self, name: str) -> FlowBuilder:
        """Name the graph; inside another one its metrics appear as 'name.metric'.

        Args:
            name: The label.
        """
        fault = name_fault(name, what="label")
        if fault is not None:
            self._faults.append(fault)
        self._label = name
        return self

    def build(self) -> Graph:
        """Return the graph, or raise one UsageError that lists everything that is wrong."""
        ids = {node.id: index for index, node in enumerate(self._nodes)}
        faults = list(dict.fromkeys(self._faults))
        faults += [
            f"tag {tag!r} is the id of another node"
            for tag, index in self._tags.items()
            if ids.get(tag, index) != index
        ]
        if len(self._streams) != 1:
            faults.append(f"{len(self._streams)} streams are left unmerged at the end")
        faults += label_faults(self._modules.values(), self._tags)
        if faults:
            lines = [f"  {number}. {fault}" for number, fault in enumerate(faults, 1)]
            raise UsageError("\n".join(["The graph cannot be built:", *lines]))
        return Graph(self._wiring(), dict(self._modules), label=self._label)

    def _wiring(self) -> Wiring:
        output = self._streams[0]
        last_use = {source: i for i, node in enumerate(self._nodes) for source in node.sources}
        nodes = tuple(
            Node(
                node.id,
                node.kind,
                node.sources,
                list(node.tags),
                _slot(node) if index in self._modules else None,
                tuple(s for s, use in last_use.items() if use == index and s != output),
            )
            for index, node in enumerate(self._nodes)
        )
        return Wiring(nodes, output, dict(self._tags), dict(self._groups))

    def _add_part(self, verb: str, part: Any) -> int:
        if len(self._streams) > 1:
            self._faults.append(
                f"{verb} needs one stream, there are {len(self._streams)}: merge them"
            )
        module = part if isinstance(part, nn.Module) else self._function(verb, part)
        return self._add(title_of(module), kind_of(module), module, (self._streams[0],))

    def _function(self, verb: str, part: Any) -> nn.Module:
        if isinstance(part, type):
            self._faults.append(f"{verb} got the class {part.__name__}; write {part.__name__}(...)")
        elif isinstance(part, FlowBuilder):
            self._faults.append(f"{verb} got a builder; call its build()")
        elif callable(part):
            return Function(part)
        else:
            self._faults.append(f"{verb} takes modules or functions, got {type(part).__name__}")
        return nn.Identity()

    def _merged(self, streams: list[int], op: MergeOp) -> int:
        return self._add(op.value, "merge", Merge(op), tuple(streams))

    def _add(self, title: str, kind: Kind, module: nn.Module, sources: tuple[int, ...]) -> int:
        stem = title.lower()
        self._counts[stem] += 1
        index = len(self._nodes)
        self._nodes.append(Node(f"{stem}_{self._counts[stem]}", kind, sources))
        self._modules[index] = module
        return index

    def _tag(self, name: str, index: int) -> None:
        self._tags[name] = index
        self._nodes[index].tags.append(name)

    def _is_free(self, name: str) -> bool:
        fault = name_fault(name, what="tag")
        if fault is None and (name == "input" or name in self._tags or name in self._groups):
            fault = f"tag {name!r} is taken"
        if fault is not None:
            self._faults.append(fault)
        return fault is None


def name_fault(name: object, *, what: str) -> str | None:
    """Return what is wrong with a tag or a label; None when nothing is.

    A dot separates the labels of a path and a slash a tag from its parameter.
    """
    if not isinstance(name, str) or not name:
        return f"{what} must be a non-empty text, got {name!r}"
    if "." in name or "/" in name:
        return f"{what} {name!r} may not contain a dot or a slash"
    if not name.isprintable():
        return f"{what} {name!r} may only contain printable characters"
    return None


def _slot(node: Node) -> str:
    """Return the tag, or the id where the tag is the name of an attribute of every module."""
    is_attribute = hasattr(nn.Module, node.name) or node.name == "training"
    return node.id if is_attribute else node.name
