"""A graph of modules that observes itself: it runs, records metrics, and draws itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from epochal.errors import UsageError
from epochal.records.format import format_count
from epochal.run.current import current_values
from epochal.series.trend import Goal, Trend, TrendGroup
from epochal.torch.graph.observe import (
    Observation,
    Points,
    plot_html,
    unknown_metric,
    write_epochs,
    write_table,
)
from epochal.torch.graph.profile import Profile, Profiler
from epochal.torch.graph.wiring import Merge, Node, Wiring, counts, suggestion, title_of

if TYPE_CHECKING:
    from epochal.torch.checkpoint.file import Source
    from epochal.torch.checkpoint.model_file import LoadReport, ModelSnapshot
    from epochal.torch.graph.picture import Picture

Names = Sequence[str] | str
_T = TypeVar("_T", bound=Tensor)


class Graph(nn.Module):
    """A module made of nodes; written with `FlowBuilder`.

    `nodes` holds the modules under their first tag, else their id. Names of metrics and of tags may
    be groups, which stand for their members. Names of metrics may also be paths: 'label.metric' is
    a metric of the graph inside that has this label.

    Args:
        wiring: The nodes and their connections.
        modules: The module of each node.
        label: The name of the graph inside another one.
    """

    def __init__(
        self, wiring: Wiring, modules: Mapping[int, nn.Module], *, label: str | None = None
    ) -> None:
        super().__init__()
        self.label = label
        self.wiring = wiring
        self.nodes = nn.Module()
        for index, module in modules.items():
            self.nodes.add_module(str(wiring.nodes[index].slot), module)
        self.observation = Observation()
        self._profiler: Profiler | None = None
        self._tagged: dict[str, Any] = {}

    def forward(self, stream: Any) -> Any:
        """Run every node once.

        Args:
            stream: The input.
        """
        if not torch.compiler.is_compiling():
            self.observation.begin()
        values: dict[int, Any] = {0: stream}
        tagged: dict[str, Any] = {}
        for index, node in enumerate(self.wiring.nodes):
            if node.slot is not None:
                module = getattr(self.nodes, node.slot)
                values[index] = module(*[values[source] for source in node.sources])
            for tag in node.tags:
                tagged[tag] = values[index]
            for freed in node.frees:
                del values[freed]
        if not _is_exporting():
            self._tagged = tagged
        return values[self.wiring.output]

    # -- structure and checkpoints

    def module_of(self, node: Node) -> nn.Module | None:
        """Return a node's module; None for the input.

        Args:
            node: A node of the graph.
        """
        return None if node.slot is None else getattr(self.nodes, node.slot)

    def qualified_parameters(self) -> dict[str, nn.Parameter]:
        """Return parameters by 'tag/name', or 'node/name' without a tag; shared ones once."""
        return _qualified((name, m.named_parameters()) for name, m in self._named_modules())

    def qualified_buffers(self) -> dict[str, Tensor]:
        """Return buffers by 'tag/name', or 'node/name' without a tag; shared ones once."""
        return _qualified((name, m.named_buffers()) for name, m in self._named_modules())

    def structural_hash(self) -> str:
        """Return 64 hexadecimal digits that identify the structure, the same in every process.

        Nodes, types, shapes, edges and tags are part of it; values, dtypes and the label are not.
        """
        wiring = self.wiring
        structure = {
            "nodes": [
                [node.id, node.kind, list(node.sources), _described(self.module_of(node))]
                for node in wiring.nodes
            ],
            "tags": sorted(wiring.tags.items()),
            "groups": sorted((name, list(members)) for name, members in wiring.groups.items()),
            "output": wiring.output,
        }
        text = json.dumps(structure, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def save_checkpoint(self, destination: Source, **options: Any) -> None:
        """Save parameters, buffers and structural hash; options as in `save_checkpoint`.

        Args:
            destination: The path of the file, or an open file.
            options: Arguments of `save_checkpoint`.
        """
        from epochal.torch.checkpoint.model_file import save_checkpoint

        save_checkpoint(destination, self, **options)

    def load_checkpoint(self, source: Source, **options: Any) -> LoadReport:
        """Fill the graph from a checkpoint; options as in `load_checkpoint`.

        Args:
            source: The path of the file, or an open file.
            options: Arguments of `load_checkpoint`.
        """
        from epochal.torch.checkpoint.model_file import load_checkpoint

        return load_checkpoint(source, self, **options)

    def snapshot_cpu(self) -> ModelSnapshot:
        """Copy the graph to main memory, to be saved while training continues."""
        from epochal.torch.checkpoint.model_file import snapshot_cpu

        return snapshot_cpu(self)

    # -- recording

    def record(self, tag: str, values: Any) -> None:
        """Record several values: a tensor, an array or an iterable of numbers.

        Args:
            tag: The name of the metric.
            values: The numbers.
        """
        self.observation.record_many(self._own_name(tag), values)

    def record_scalar(self, tag: str, value: Any) -> None:
        """Record one value; a tensor on a GPU is not waited for.

        Args:
            tag: The name of the metric.
            value: A number, or a tensor of one element.
        """
        self.observation.record(self._own_name(tag), value)

    def record_at(self, path: str, value: Any) -> None:
        """Record one value in a labelled graph inside, at a path like 'label.metric'.

        Args:
            path: The labels and the name of the metric, with dots between them.
            value: A number, or a tensor of one element.
        """
        graph, name = self._at(path)
        graph.record_scalar(name, value)

    def collect(self, tags: Names) -> None:
        """Record the outputs of tagged nodes in the last forward; of several numbers the mean.

        Args:
            tags: Tags of nodes.
        """
        for tag in self.wiring.expanded(_listed(tags)):
            number = current_values().read(tag, _one_number, self.tagged(tag), tag=tag)
            if number is not None:
                self.observation.record(tag, number)

    def tagged(self, tag: str) -> Any:
        """Return a tagged node's output in the last forward; None before one.

        Args:
            tag: The tag of the node.
        """
        if tag not in self.wiring.tags:
            raise UsageError(f"No node is tagged {tag!r}: {suggestion(tag, self.wiring.tags)}")
        return self._tagged.get(tag)

    def flush(self, tags: Names = ()) -> None:
        """Make one point of each metric's values, here and in the labelled graphs inside.

        With names only these are flushed. Metrics without new values stay as they are.

        Args:
            tags: Names of metrics; all of them if you give none.
        """
        if not _listed(tags):
            for _, graph in self._tree():
                graph.observation.flush()
            return
        wanted: dict[Graph, list[str]] = {}
        for name in self._expanded(tags):
            graph, own = self._located(name)
            wanted.setdefault(graph, []).append(own)
        for graph, names in wanted.items():
            graph.observation.flush(names)

    def flush_local(self, tags: Names = ()) -> None:
        """Flush this graph alone.

        Args:
            tags: Names of metrics; all of them if you give none.
        """
        names = self.wiring.expanded(_listed(tags))
        for name in names:
            if name not in self.observation.names() and name not in self.wiring.tags:
                raise unknown_metric(name, self.observation.names())
        self.observation.flush(names)

    def end_epoch(self) -> None:
        """Flush what was not flushed yet."""
        self.flush()

    # -- what was recorded

    def latest_metrics(self) -> dict[str, float]:
        """Return every metric's newest point: this graph's, then those inside by dotted name."""
        return {
            f"{prefix}{name}": value
            for prefix, graph in self._tree()
            for name, value in graph.observation.latest().items()
        }

    @property
    def flush_count(self) -> int:
        """How many flushes found something."""
        return self.observation.flush_count

    def eta(self, total: int) -> float:
        """Return the seconds until `total` flushes are done; nan before the first."""
        return self.observation.eta(total)

    def trend(self, tag: str, *, goal: Goal = "min") -> Trend:
        """Return a metric's history, one point per flush; `goal` says which way is better.

        Args:
            tag: The name of the metric.
            goal: ``min`` or ``max``: which way is better.
        """
        return Trend(self._history(tag).values, goal=goal)

    def trends(self, tags: Names = (), *, goal: Goal = "min") -> TrendGroup:
        """Return several trends as a group; all of them without names.

        Args:
            tags: Names of metrics; all of them if you give none.
            goal: ``min`` or ``max``: which way is better.
        """
        found = self._histories(tags)
        return TrendGroup({name: Trend(p.values, goal=goal) for name, p in found.items()})

    def plot_html(self, path: str | Path, tags: Names = ()) -> None:
        """Draw trends into one self-contained file; all of them without names.

        Args:
            path: The file to write.
            tags: Names of metrics; all of them if you give none.
        """
        plot_html(path, self._histories(tags), title=self.label or "Training curves")

    def export_trends(self, path: str | Path, tags: Names = ()) -> None:
        """Write trends as CSV: epoch, then a column for each; all of them without names.

        Args:
            path: The file to write.
            tags: Names of metrics; all of them if you give none.
        """
        write_table(path, self._histories(tags))

    def write_log(self, path: str | Path, total_epochs: int = 0, tags: Names = ()) -> None:
        """Write a line per epoch, with its duration and the time that was left then.

        Args:
            path: The file to write.
            total_epochs: How many epochs are planned; gives the time left.
            tags: Names of metrics; all of them if you give none.
        """
        seconds = self.observation.flush_seconds
        write_epochs(
            path,
            self._histories(tags),
            total_epochs=total_epochs,
            seconds=seconds,
            first_timed=self.flush_count - len(seconds) + 1,
        )

    def observation_state(self) -> dict[str, Any]:
        """Return the history of the graph and those inside, as JSON can hold it."""
        return {prefix: graph.observation.state() for prefix, graph in self._tree()}

    def restore_observation(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved history: trends, counts and the time left.

        Args:
            state: What `observation_state()` returned.
        """
        for prefix, graph in self._tree():
            if prefix in state:
                graph.observation.restore(state[prefix])

    # -- picture and profile

    def picture(self, *, profiled: bool = False) -> Picture:
        """Return the graph as a picture; `profiled` colours it by time, after a timed pass."""
        from epochal.torch.graph.picture import Picture, PictureEdge, PictureNode  # with torch.fx

        # A space is in no tag, so a node may be tagged 'input' or 'output'.
        keys = [f"{n.id} " if n.kind == "input" else n.name for n in self.wiring.nodes]
        nodes = []
        for key, node in zip(keys, self.wiring.nodes, strict=True):
            module = self.module_of(node)
            parameters = 0 if module is None else counts(module)[0]
            shown = _shown_title(node, module)
            nodes.append(PictureNode(key, node.kind, shown, tuple(node.tags), parameters))
        edges = [
            PictureEdge(keys[source], key)
            for key, node in zip(keys, self.wiring.nodes, strict=True)
            for source in node.sources
        ]
        nodes.append(PictureNode("output ", "output", "output"))
        edges.append(PictureEdge(keys[self.wiring.output], "output "))
        total = format_count(counts(self)[0])
        title = f"{self.label or 'graph'} [{self.structural_hash()[:8]}] · {total} parameters"
        picture = Picture(title, tuple(nodes), tuple(dict.fromkeys(edges)))
        return picture.timed(self.profile()) if profiled else picture

    def svg(self, path: str | Path | None = None, *, profiled: bool = False) -> str:
        """Return the picture as SVG; also write it to a file if one is named.

        Args:
            path: The file to write as well.
            profiled: Colour the nodes by their time.
        """
        return self.picture(profiled=profiled).svg(path)

    def enable_profiling(self) -> None:
        """Time the forward pass of every node until `disable_profiling`."""
        if self._profiler is None:
            self._profiler = Profiler(self, dict(self._named_modules()))
        self._profiler.install()

    def disable_profiling(self) -> None:
        """Remove the hooks; `profile()` still returns what was measured."""
        if self._profiler is not None:
            self._profiler.remove()

    @property
    def has_profile(self) -> bool:
        """Whether a pass was timed, so that there is a profile."""
        return self._profiler is not None and self._profiler.has_passes

    def profile(self) -> Profile:
        """Return the median times so far; waits for a GPU that has not finished."""
        return Profiler(self, {}).profile() if self._profiler is None else self._profiler.profile()

    # -- inside

    def __getstate__(self) -> dict[str, Any]:
        # Outputs belong to an autograd graph, which cannot be copied.
        return {**self.__dict__, "_tagged": {}}

    def _named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        for node in self.wiring.nodes:
            if node.slot is not None:
                yield node.name, getattr(self.nodes, node.slot)

    def _children(self) -> dict[str, Graph]:
        """Return the labelled graphs directly inside, in the order written."""
        inner = (graph for module in self.nodes.children() for graph in _graphs_in(module))
        return {graph.label: graph for graph in inner if graph.label is not None}

    def _tree(self) -> Iterator[tuple[str, Graph]]:
        """Yield this graph and those inside, each with the prefix of its names."""
        yield "", self
        for label, child in self._children().items():
            for prefix, graph in child._tree():
                yield f"{label}.{prefix}", graph

    def _at(self, path: str) -> tuple[Graph, str]:
        """Return the graph that a dotted path leads to, and the name in it."""
        graph: Graph = self
        *labels, name = path.split(".")
        for label in labels:
            children = graph._children()
            if label not in children:
                where = repr(graph.label) if graph.label else "this graph"
                raise UsageError(
                    f"No graph labelled {label!r} is inside {where}: {suggestion(label, children)}"
                )
            graph = children[label]
        return graph, name

    def _own_name(self, name: str) -> str:
        head, _, rest = str(name).partition(".")
        if rest and head in self._children():
            raise UsageError(f"{name!r} belongs to the graph {head!r} inside: use record_at.")
        return name

    def _recorded(self) -> list[str]:
        return [f"{prefix}{n}" for prefix, graph in self._tree() for n in graph.observation.names()]

    def _located(self, name: str) -> tuple[Graph, str]:
        """Return where a metric is: a name with a dot may be this graph's own, or a path."""
        graph, own = (self, name) if name in self.observation.names() else self._at(name)
        if own not in graph.observation.names() and own not in graph.wiring.tags:
            raise unknown_metric(name, self._recorded())
        return graph, own

    def _expanded(self, names: Names) -> list[str]:
        """Return names with their groups expanded, those of graphs inside included."""
        expanded: dict[str, None] = {}
        for name in _listed(names):
            graph, own = (self, name) if name in self.observation.names() else self._at(name)
            members = graph.wiring.groups.get(own, (own,))
            expanded.update(dict.fromkeys(f"{name.removesuffix(own)}{one}" for one in members))
        return list(expanded)

    def _history(self, name: str) -> Points:
        graph, own = self._located(name)
        return graph.observation.points(own)

    def _histories(self, names: Names) -> dict[str, Points]:
        return {name: self._history(name) for name in self._expanded(names) or self._recorded()}


def label_faults(modules: Iterable[nn.Module], tags: Mapping[str, int]) -> list[str]:
    """Return why the graphs among the modules of a new graph cannot be addressed by label."""
    faults, seen = [], set()
    for graph in (graph for module in modules for graph in _graphs_in(module)):
        if graph.label in seen:
            faults.append(f"two graphs inside this one are labelled {graph.label!r}")
        elif graph.label in tags:
            faults.append(f"{graph.label!r} is both a tag and the label of a graph inside")
        if graph.label is not None:
            seen.add(graph.label)
    return faults


def _graphs_in(module: nn.Module) -> Iterator[Graph]:
    """Yield the outermost graphs in a module, in the order of its children."""
    if isinstance(module, Graph):
        yield module
        return
    for child in module.children():
        yield from _graphs_in(child)


def _shown_title(node: Node, module: nn.Module | None) -> str:
    if isinstance(module, Merge):
        return {"add": "+", "mean": "mean"}[module.op.value]
    return node.id if module is None else getattr(module, "label", None) or title_of(module)


def _qualified(named: Iterable[tuple[str, Iterable[tuple[str, _T]]]]) -> dict[str, _T]:
    found: dict[str, _T] = {}
    seen: set[int] = set()
    for prefix, tensors in named:
        for name, tensor in tensors:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                found[f"{prefix}/{name}"] = tensor
    return found


def _described(module: nn.Module | None) -> Any:
    """Describe a module for the structural hash."""
    if module is None or isinstance(module, Graph):
        return None if module is None else {"graph": module.structural_hash()}
    return {
        "type": title_of(module),
        "merge": module.op.value if isinstance(module, Merge) else "",
        "tensors": sorted(
            (name, list(tensor.shape))
            for tensors in (module.named_parameters(), module.named_buffers())
            for name, tensor in tensors
        ),
        "graphs": [graph.structural_hash() for graph in _graphs_in(module)],
    }


def _one_number(value: Any, *, tag: str) -> Tensor:
    if value is None:
        raise UsageError(f"collect({tag!r}) needs a forward before it.")
    if not isinstance(value, Tensor):
        raise UsageError(
            f"{tag!r} is a {type(value).__name__}, not a tensor: tag a node that returns one, "
            f"or record what you need of it with record_scalar({tag!r}, …)."
        )
    numbers: Tensor = value.detach()
    if numbers.numel() == 1:
        return numbers
    return numbers.mean() if numbers.is_floating_point() else numbers.to(torch.float32).mean()


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _is_exporting() -> bool:
    """Return whether torch.export traces the graph, so that a forward must not keep anything."""
    # Not is_exporting(): torch 2.11 takes it for true inside torch.compile as well.
    flag = getattr(torch.compiler, "_is_exporting_flag", None)
    if flag is not None:
        return bool(flag)
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
