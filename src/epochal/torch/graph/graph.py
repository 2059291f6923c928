"""A graph of modules that observes itself: it runs, records, remembers and draws what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from epochal.errors import UsageError
from epochal.series.trend import Goal, Trend, TrendGroup
from epochal.torch.graph import summary, tree
from epochal.torch.graph.draft import Initial
from epochal.torch.graph.drawing import drawing
from epochal.torch.graph.metrics import (
    Reduce,
    collect,
    flush_own,
    flush_tree,
    histories,
    history,
    over_tree,
)
from epochal.torch.graph.names import listed_names, suggestion, unknown_tag
from epochal.torch.graph.node import Node, Wiring, require_same_batch
from epochal.torch.graph.node_modules import Loop, is_exporting
from epochal.torch.graph.observe import Observation
from epochal.torch.graph.profile_report import NodeTime, Profile, profile_of
from epochal.torch.graph.profiler import Profiler
from epochal.torch.graph.recorded import ScalarSum
from epochal.torch.graph.structure import qualified, structural_hash
from epochal.torch.graph.tables import write_epochs, write_table
from epochal.torch.graph.timings import Timings

if TYPE_CHECKING:
    from epochal.torch.checkpoint.file import Source
    from epochal.torch.checkpoint.model_file import LoadReport, ModelSnapshot
    from epochal.torch.draw.picture import Picture


class Graph(nn.Module):
    """A module made of nodes; written with `FlowBuilder`.

    `nodes` holds the modules under their first tag, else their id. `timings` has the history of
    node times while profiling is on. Names of metrics and of tags may be groups, which stand for
    their members; in the questions about metrics they may be paths like 'label.metric'.
    """

    def __init__(
        self,
        wiring: Wiring,
        modules: Mapping[int, nn.Module],
        *,
        label: str | None = None,
        initials: Mapping[int, Initial] | None = None,
    ) -> None:
        super().__init__()
        self.label = label
        self.nodes = nn.Module()
        self.wiring = wiring.with_slots(modules)
        for node in self.wiring.nodes:
            if node.slot is not None:
                self.nodes.add_module(node.slot, modules[node.index])
        self.timings = Timings(self.wiring.expanded)
        self.step_count = 0
        self.epoch_count = 0
        self._initials = dict(initials or {})
        self.observation = Observation()
        self._profiler: Profiler | None = None
        self._state: dict[int, Any] = {}
        self._tagged: dict[str, Any] = {}
        self._nested = [
            graph for module in self.nodes.children() for graph in tree.graphs_in(module, Graph)
        ]

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Run every node once; more inputs are passed in their order or by name."""
        values = self.wiring.bound_inputs(inputs, named)
        exporting = is_exporting()
        if not torch.compiler.is_compiling():
            self.observation.begin()
        tagged: dict[str, Any] = {}
        for node in self.wiring.nodes:
            if node.kind == "state":
                values[node.index] = self._carried(
                    node, values[node.sources[0].node], exporting=exporting
                )
            elif node.slot is not None:
                module = getattr(self.nodes, node.slot)
                values[node.index] = module(*[values[source.node] for source in node.sources])
            for tag in node.tags:
                tagged[tag] = values[node.index]
            for freed in node.frees:
                del values[freed]
        if not exporting:
            for node in self.wiring.nodes:
                if node.carries is not None:
                    self._state[node.index] = values[node.carries]
            self._tagged = tagged
        return values[self.wiring.output]

    # -- structure

    def module_of(self, node: Node) -> nn.Module | None:
        """A node's module; None for inputs and states."""
        return None if node.slot is None else getattr(self.nodes, node.slot)

    def tag_names(self) -> list[str]:
        """Every tag, in the order written."""
        return list(self.wiring.tags)

    def faults(self) -> list[str]:
        """What keeps the graph from being used, in sentences; `build()` raises them."""
        return tree.tree_faults(self._nested, dict(self.wiring.tags))

    def qualified_parameters(self) -> dict[str, nn.Parameter]:
        """Parameters by 'tag/name', or 'node/name' where there is no tag; shared ones once."""
        return qualified({name: m.named_parameters() for name, m in self._named_modules()})

    def qualified_buffers(self) -> dict[str, Tensor]:
        """Buffers by 'tag/name', or 'node/name' where there is no tag; shared ones once."""
        return qualified({name: m.named_buffers() for name, m in self._named_modules()})

    def structural_hash(self) -> str:
        """64 hexadecimal digits that tell two structures apart, the same in every process."""
        return structural_hash(self)

    def short_hash(self) -> str:
        """The first 8 digits of the structural hash."""
        return self.structural_hash()[:8]

    def save_checkpoint(self, destination: Source, **options: Any) -> None:
        """Save parameters, buffers and structural hash; options as in `save_checkpoint`."""
        from epochal.torch.checkpoint.model_file import save_checkpoint

        save_checkpoint(destination, self, **options)

    def load_checkpoint(self, source: Source, **options: Any) -> LoadReport:
        """Fill the graph from a checkpoint; options as in `load_checkpoint`."""
        from epochal.torch.checkpoint.model_file import load_checkpoint

        return load_checkpoint(source, self, **options)

    def snapshot_cpu(self) -> ModelSnapshot:
        """Copy the graph to main memory, to be saved while training goes on."""
        from epochal.torch.checkpoint.model_file import snapshot_cpu

        return snapshot_cpu(self)

    def tree_summary(self) -> str:
        """A line for every graph of the tree: label, hash, parameters, tags."""
        return summary.tree_summary(self)

    def param_summary(self) -> str:
        """A line for every node with parameters, then the totals."""
        return summary.param_summary(self)

    # -- the tree

    def tree_children(self) -> dict[str, Graph]:
        """The labelled graphs directly inside this one, in the order written."""
        return {graph.label: graph for graph in self._nested if graph.label is not None}

    @property
    def is_composed(self) -> bool:
        """Whether there are labelled graphs inside."""
        return bool(self.tree_children())

    def child_graph(self, label: str) -> Graph:
        """The graph with this label directly inside; ValueError without one."""
        return tree.graph_at(self, [label])

    def subgraph(self, path: str) -> Graph:
        """The graph at a path of labels like 'a.b'; ValueError without one."""
        return tree.graph_at(self, path.split("."))

    def validate_path(self, path: str) -> None:
        """Raise ValueError unless a path names a graph, or a tag or metric that can be read."""
        graph, name = tree.visible_at(self, path)
        known = [*graph.tree_children(), *graph.tag_names(), *graph.observation.names()]
        if name not in known:
            raise UsageError(f"{path!r} leads nowhere: {suggestion(name, known)}")

    # -- observation

    def record(self, tag: str, values: Any, *, weight: float = 1.0) -> None:
        """Record several values: a tensor, an array or an iterable of numbers."""
        self.observation.record_many(self._own_name(tag), values, weight=weight)

    def record_scalar(self, tag: str, value: Any, *, weight: float = 1.0) -> None:
        """Record one value; a tensor on a GPU is not waited for.

        `weight` is its weight in the mean, such as the size of its batch.
        """
        self.observation.record(self._own_name(tag), value, weight=weight)

    def record_at(self, path: str, value: Any, *, weight: float = 1.0) -> None:
        """Record one value in a labelled graph inside, at a path like 'label.metric'."""
        graph, name = tree.visible_at(self, path)
        graph.record_scalar(name, value, weight=weight)

    def collect(self, tags: Sequence[str] | str, *, weight: float = 1.0) -> None:
        """Record the outputs of tagged nodes in the last forward; of several numbers the mean.

        `collect_with` records another reduction.
        """
        collect(self, tags, None, weight=weight)

    def collect_with(
        self, tags: Sequence[str] | str, reduction: Reduce | str, *, weight: float = 1.0
    ) -> None:
        """Record tagged outputs reduced to one number: mean, sum, max, min or norm."""
        collect(self, tags, Reduce.named(reduction), weight=weight)

    def collect_at(
        self, path: str, reduction: Reduce | str | None = None, *, weight: float = 1.0
    ) -> None:
        """Record a tagged output of a labelled graph inside."""
        graph, name = tree.visible_at(self, path)
        chosen = None if reduction is None else Reduce.named(reduction)
        collect(graph, name, chosen, weight=weight)

    def collected(self, tag: str) -> list[float]:
        """What was recorded since the last flush; waits for a GPU that holds some of it."""
        return self.observation.collected(tag)

    def tagged(self, tag: str) -> Any:
        """A tagged node's output in the last forward; None before one."""
        if tag not in self.wiring.tags:
            raise unknown_tag(tag, self.wiring.tags)
        return self._tagged.get(tag)

    def tagged_at(self, path: str) -> Any:
        """The same, of a labelled graph inside; ValueError when nothing has that path."""
        graph, name = tree.visible_at(self, path)
        return graph.tagged(name)

    def traces(self, tag: str, name: str = "") -> list[Tensor]:
        """What a tagged loop's body emitted in the last forward, one tensor per iteration."""
        if tag not in self.wiring.tags:
            raise unknown_tag(tag, self.wiring.tags)
        loop = self.module_of(self.wiring.node_of(self.wiring.tags[tag]))
        if not isinstance(loop, Loop):
            raise UsageError(f"{tag!r} is not a loop, so it has no traces.")
        if name and name not in loop.traces:
            raise UsageError(f"{tag!r} emitted no {name!r}: {suggestion(name, loop.traces)}")
        return list(loop.traces.get(name, []))

    def last_trace(self, tag: str, name: str = "") -> Tensor | None:
        """What a tagged loop's body emitted in the last iteration; None if it did not."""
        traces = self.traces(tag, name)
        return traces[-1] if traces else None

    def flush(self, tags: Sequence[str] | str = ()) -> None:
        """Make one point of each metric's values, here and in the labelled graphs inside.

        Names choose; a path reaches into a labelled graph. What holds nothing is left as it is.
        """
        flush_tree(self, tags)

    def flush_local(self, tags: Sequence[str] | str = ()) -> None:
        """Flush this graph alone."""
        flush_own(self, tags)

    def latest_metrics(self) -> dict[str, float]:
        """Every metric's newest point: this graph's, then those inside as 'label.metric'."""
        return dict(over_tree(self, Observation.latest))

    def latest_metrics_local(self) -> dict[str, float]:
        """The newest points of this graph alone."""
        return self.observation.latest()

    def nonfinite(self) -> dict[str, int]:
        """How many records of the newest points were nan or infinite and are not in the means."""
        return dict(over_tree(self, Observation.nonfinite))

    def drain_scalars(self) -> dict[str, ScalarSum]:
        """Take out what this thread recorded, as sums to be sent to another thread or rank."""
        return self.observation.drain()

    def absorb_scalars(self, parts: Mapping[str, ScalarSum]) -> None:
        """Take in what another thread or rank drained; the next flush weighs all alike."""
        self.observation.absorb(parts)

    @property
    def flush_count(self) -> int:
        """How many flushes found something."""
        return self.observation.flush_count

    def eta(self, total: int) -> float:
        """Seconds until `total` flushes are done; nan before the first."""
        return self.observation.eta(total)

    def end_step(self) -> None:
        """Count a step: detach what is carried and tagged, and collect node times."""
        self._state = {key: _detached(value) for key, value in self._state.items()}
        self._tagged = {tag: _detached(value) for tag, value in self._tagged.items()}
        if self._profiler is not None:
            self.timings.collect(self._profiler)
        self.step_count += 1
        for graph in self._nested:
            graph.end_step()

    def end_sequence(self) -> None:
        """Forget what is carried between calls: the next one starts from the initial state."""
        self._state.clear()
        for graph in self._nested:
            graph.end_sequence()

    def end_epoch(self) -> None:
        """Count an epoch: flush what was not flushed yet, node times included."""
        self.flush()
        for _, graph in tree.dotted(self):
            if graph._profiler is not None:
                graph.timings.collect(graph._profiler, wait=True)
                graph.timings.flush()
            graph.epoch_count += 1

    # -- trends

    def trend(self, tag: str, *, goal: Goal = "min") -> Trend:
        """A metric's history, one point per flush; `goal` says which way is better."""
        return Trend(history(self, tag).values, goal=goal)

    def trend_at(self, path: str, *, goal: Goal = "min") -> Trend:
        """The history of a metric of a labelled graph inside."""
        graph, name = tree.visible_at(self, path)
        return graph.trend(name, goal=goal)

    def trends(self, tags: Sequence[str] | str = (), *, goal: Goal = "min") -> TrendGroup:
        """Several trends to be asked together; all without names."""
        history = histories(self, tags)
        return TrendGroup({name: Trend(p.values, goal=goal) for name, p in history.items()})

    def reset_trend(self, tags: Sequence[str] | str = ()) -> None:
        """Forget the history of some metrics, or of all of this graph."""
        self.observation.reset(self.wiring.expanded(listed_names(tags)))

    def observation_state(self) -> dict[str, Any]:
        """History and counts of the whole tree, as JSON can hold them; for a checkpoint."""
        return {
            prefix: {
                **graph.observation.state(),
                "step_count": graph.step_count,
                "epoch_count": graph.epoch_count,
            }
            for prefix, graph in tree.dotted(self)
        }

    def restore_observation(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved history: trends, counts and the time left continue."""
        for prefix, graph in tree.dotted(self):
            if prefix in state:
                graph.observation.restore(state[prefix])
                graph.step_count = int(state[prefix]["step_count"])
                graph.epoch_count = int(state[prefix]["epoch_count"])

    def plot_html(self, path: str | Path, tags: Sequence[str] | str = ()) -> None:
        """Draw trends into one self-contained file; all without names."""
        title = self.label or "Training curves"
        drawing().plot_html(path, histories(self, tags), title=title)

    def export_trends(self, path: str | Path, tags: Sequence[str] | str = ()) -> None:
        """Write trends as CSV: epoch, then a column for each; all without names."""
        write_table(path, histories(self, tags))

    def write_log(
        self, path: str | Path, total_epochs: int = 0, tags: Sequence[str] | str = ()
    ) -> None:
        """Write a line per epoch, with its duration and the time then left."""
        seconds = self.observation.flush_seconds
        write_epochs(
            path,
            histories(self, tags),
            total_epochs=total_epochs,
            seconds=seconds,
            first_timed=self.flush_count - len(seconds) + 1,
        )

    # -- picture and profile

    def picture(self, *, profiled: bool = False) -> Picture:
        """The graph as a picture; `profiled` colours it by time, after `enable_profiling`."""
        return drawing().picture_of_graph(self, self.profile() if profiled else None)

    def svg(self, path: str | Path | None = None, *, profiled: bool = False) -> str:
        """The picture as SVG text, written to a file as well if one is named."""
        return self.picture(profiled=profiled).svg(path)

    def dot(self, *, profiled: bool = False) -> str:
        """The picture in Graphviz' language."""
        return self.picture(profiled=profiled).dot()

    def enable_profiling(self) -> None:
        """Time every node, forward and backward, until `disable_profiling`.

        Nodes of labelled graphs inside are timed as 'label.node'.
        """
        if self._profiler is None:
            timed = list(tree.timed_nodes(self, Graph))
            self._profiler = Profiler(
                self,
                {name: module for name, module, _, _ in timed},
                around={name: wholes for name, _, _, wholes in timed if wholes},
            )
        self._profiler.install()

    def disable_profiling(self) -> None:
        """Take the hooks off; what was measured can still be asked for."""
        if self._profiler is not None:
            self._profiler.remove()

    @property
    def has_profile(self) -> bool:
        """Whether a pass was timed, so that there is a profile."""
        return self._profiler is not None and any(
            one.ended is not None for one in self._profiler.passes
        )

    @property
    def is_profiling(self) -> bool:
        """Whether nodes are being timed."""
        return self._profiler is not None and self._profiler.is_installed

    def profile(self) -> Profile:
        """The times of the median pass so far; waits for a GPU that is still at one."""
        timed = {name: node.level for name, _, node, _ in tree.timed_nodes(self, Graph)}
        passes = [] if self._profiler is None else list(self._profiler.passes)
        return profile_of(passes, levels=timed, names=list(timed))

    def timing(self, tag: str) -> NodeTime:
        """One node's times in the median pass, by tag or id, or by a path like 'label.tag'."""
        profile = self.profile()
        graph, own = tree.visible_at(self, tag)
        tags = graph.wiring.tags
        node = graph.wiring.node_of(tags[own]).name if own in tags else own
        name = f"{tag.removesuffix(own)}{node}"
        found = profile.node(name)
        if found is None:
            raise unknown_tag(tag, [node.name for node in profile.nodes])
        return found

    # -- inside

    def __getstate__(self) -> dict[str, Any]:
        # Outputs belong to an autograd graph, which cannot be copied.
        state = {key: _detached(value) for key, value in self._state.items()}
        return {**self.__dict__, "_tagged": {}, "_state": state}

    def _apply(self, fn: Any, recurse: bool = True) -> Graph:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._state = {
            key: fn(value) if isinstance(value, Tensor) else value
            for key, value in self._state.items()
        }
        return self

    def _carried(self, node: Node, stream: Any, *, exporting: bool) -> Any:
        if exporting:
            raise UsageError(f"A graph that carries {node.id!r} between calls cannot be exported.")
        held = self._state.get(node.index)
        if held is None:
            initial = self._initials.get(node.index)
            return torch.zeros_like(stream) if initial is None else initial(stream)
        require_same_batch(node, held, stream)
        return held

    def _named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        for node in self.wiring.nodes:
            module = self.module_of(node)
            if module is not None:
                yield node.name, module

    def _own_name(self, name: str) -> str:
        head, _, rest = str(name).partition(".")
        if rest and head in self.tree_children():
            raise UsageError(f"{name!r} belongs to the graph {head!r} inside: use record_at.")
        return name


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
