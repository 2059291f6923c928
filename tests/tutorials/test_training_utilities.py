"""flodl's tutorial "Training Utilities" in Python: each code block in order, and its claims.

A comment with the heading of a section begins its blocks. Blocks without a meaning in Python:

- ``use flodl::…`` and ``?``: imports are those below, and errors are exceptions.
- ``fn main() -> Result<()>``: a Python script needs no main function.
- ``trait Scheduler``: the abstract class of the same name.
- ``fdl -v ddp-bench quick`` and the like start flodl's own tasks: ``epochal -v`` stands for them.
- ``cargo run``: any Python program.
"""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from epochal import FlowBuilder, Graph
from epochal.run.console import (
    Verbosity,
    debug,
    enabled,
    format_duration,
    msg,
    set_verbosity,
    trace,
    verbose,
    verbosity,
)
from epochal.torch import (
    CosineScheduler,
    CpuWorker,
    CyclicLR,
    ExponentialLR,
    MergeOp,
    MultiStepLR,
    OneCycleLR,
    PlateauScheduler,
    Rng,
    Scheduler,
    StepDecay,
    WarmupScheduler,
    clip_grad_norm,
    clip_grad_value,
    cuda_empty_cache,
    cuda_graph_capture,
    cuda_manual_seed_all,
    cuda_peak_active_bytes,
    cuda_peak_reserved_bytes,
    cuda_reset_peak_stats,
    freeze,
    is_frozen,
    kaiming_normal,
    kaiming_uniform,
    load_checkpoint,
    load_checkpoint_file,
    manual_seed,
    normal,
    orthogonal,
    save_checkpoint,
    set_data,
    set_lr,
    trunc_normal,
    uniform,
    uniform_bias,
    xavier_normal,
    xavier_uniform,
)

Batches = list[tuple[Tensor, Tensor]]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def batches() -> Batches:
    return [(inputs, inputs[:, :2] * 2) for inputs in torch.randn(4, 16, 4)]


@pytest.fixture
def model() -> Graph:
    return tagged_model()


def tagged_model(outputs: int = 2) -> Graph:
    return (
        FlowBuilder.start(nn.Linear(4, 8))
        .tag("encoder")
        .through(nn.BatchNorm1d(8))
        .through(nn.Linear(8, outputs))
        .tag(f"head_of_{outputs}")
        .build()
    )


def gradients(params: list[nn.Parameter]) -> Tensor:
    return torch.cat([param.grad.flatten() for param in params if param.grad is not None])


# Gradient clipping: clip_grad_norm, clip_grad_value


def test_clip_grad_norm(model: Graph, batches: Batches) -> None:
    params, optimizer = list(model.parameters()), torch.optim.Adam(model.parameters())
    (inputs, target) = batches[0]
    loss = mse_loss(model(inputs), 100 * target)
    loss.backward()  # type: ignore[no-untyped-call]
    before = gradients(params)
    orig_norm = clip_grad_norm(params, 1.0)
    optimizer.step()
    assert float(orig_norm) == pytest.approx(float(before.norm()))  # the norm before clipping
    assert float(gradients(params).norm()) == pytest.approx(1.0, rel=1e-4)
    assert torch.allclose(gradients(params) * orig_norm, before, rtol=1e-3)  # same direction


def test_clip_grad_value(model: Graph, batches: Batches) -> None:
    params, optimizer = list(model.parameters()), torch.optim.Adam(model.parameters())
    (inputs, target) = batches[0]
    loss = mse_loss(model(inputs), 100 * target)
    loss.backward()  # type: ignore[no-untyped-call]
    clip_grad_value(params, 0.5)
    optimizer.step()
    assert float(gradients(params).abs().max()) == 0.5


# Checkpoints: Saving and loading, Details


@pytest.mark.parametrize("name", ["model.fdl", "model.fdl.gz"])
def test_saving_and_loading(model: Graph, name: str) -> None:
    # Save — parameters + buffers + structural hash, one call
    model.save_checkpoint(name)
    # Load — validates architecture, returns LoadReport
    other = tagged_model()
    report = other.load_checkpoint(name)
    assert "encoder/weight" in report.loaded
    assert any(entry.endswith("running_mean") for entry in report.loaded)  # buffers too
    assert (report.skipped, report.missing) == ((), ())
    assert torch.equal(next(other.parameters()), next(model.parameters()))
    with pytest.raises(ValueError, match=r"another architecture|structural hash"):
        tagged_model(outputs=3).load_checkpoint(name)


def test_saving_to_a_stream_with_native_dtypes(model: Graph) -> None:
    model.half()
    named = model.named_parameters()
    buffers = model.named_buffers()
    structure = model.structural_hash()
    stream = io.BytesIO()
    save_checkpoint(stream, named, buffers, structure, layout="fdl")
    stream.seek(0)
    report = load_checkpoint(stream, model.named_parameters(), model.named_buffers(), structure)
    assert report.is_complete
    stream.seek(0)
    assert stream.getvalue()[:4] == b"FDLC"
    assert len(stream.getvalue()) < 2 * sum(p.numel() for p in model.parameters()) + 800  # f16


# Partial loading (transfer learning). Freezing transferred parameters


def test_partial_loading_and_freezing(model: Graph) -> None:
    # Save with qualified names from a Graph
    model.save_checkpoint("model.fdl")
    # Load into a different model — only matching names transfer
    new_model = tagged_model(outputs=3)
    new_named = new_model.qualified_parameters()
    new_buffers = dict(new_model.named_buffers())
    report = load_checkpoint_file("model.fdl", new_named, new_buffers, None)
    print(f"loaded: {report.loaded}")  # matched and loaded
    print(f"skipped: {report.skipped}")  # in checkpoint, not in model
    print(f"missing: {report.missing}")  # in model, not in checkpoint
    assert {"encoder/weight", "encoder/bias"} <= set(report.loaded)
    assert set(report.skipped) == {"head_of_2/weight", "head_of_2/bias"}
    assert set(report.missing) == {"head_of_3/weight", "head_of_3/bias"}

    for name, param in new_named.items():
        if name in report.loaded:
            freeze(param)
    # Only unfrozen params get gradients — optimizer skips the rest
    fresh = [param for param in new_named.values() if not is_frozen(param)]
    optimizer = torch.optim.Adam(fresh, 1e-3)
    kept = new_named["encoder/weight"].detach().clone()
    new_model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    assert len(fresh) == 2
    assert new_named["encoder/weight"].grad is None
    assert torch.equal(new_named["encoder/weight"], kept)


def test_names_are_tags_or_node_ids_and_shapes_must_fit() -> None:
    untagged = FlowBuilder.start(nn.Linear(4, 2)).build()
    assert list(untagged.qualified_parameters()) == ["linear_1/weight", "linear_1/bias"]
    untagged.save_checkpoint("model.fdl")
    wider = FlowBuilder.start(nn.Linear(4, 3)).build()
    with pytest.raises(ValueError, match="linear_1/weight"):  # an error, no silent skip
        wider.load_checkpoint("model.fdl", hash=None)


# Periodic checkpoints during training


def test_periodic_checkpoints(model: Graph) -> None:
    num_epochs = 20
    for epoch in range(num_epochs):
        # ... training loop ...
        if (epoch + 1) % 10 == 0:
            path = f"checkpoint_epoch_{epoch + 1}.fdl"
            model.save_checkpoint(path)
    names = sorted(path.name for path in Path().glob("*.fdl"))
    assert names == ["checkpoint_epoch_10.fdl", "checkpoint_epoch_20.fdl"]


# Background checkpoints with CpuWorker


def test_background_checkpoints(model: Graph) -> None:
    worker = CpuWorker()
    num_epochs = 10
    for epoch in range(num_epochs):
        # ... training loop ...
        if (epoch + 1) % 10 == 0:
            snap = model.snapshot_cpu()
            path = f"checkpoint_epoch_{epoch + 1}.fdl.gz"
            # Skip if the previous save is still running
            if worker.is_idle():
                worker.submit(snap.save_file, path)
    worker.finish()  # waits for queued saves
    other = tagged_model()
    report = load_checkpoint_file("checkpoint_epoch_10.fdl.gz", other)
    assert report.is_complete
    assert torch.equal(next(other.parameters()), next(model.parameters()))


# Weight initialization: Built-in initializers, Custom initialization


def test_built_in_initializers() -> None:
    shape, fan_in, fan_out = [64, 128], 128, 64
    bound = math.sqrt(6.0 / fan_in)
    assert float(kaiming_uniform(shape, fan_in, 0.0, "cpu").abs().max()) <= bound
    assert float(kaiming_normal(shape, fan_in, 0.0, "cpu").std()) == pytest.approx(
        math.sqrt(2.0 / fan_in), rel=0.05
    )
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    assert float(xavier_uniform(shape, fan_in, fan_out, "cpu").abs().max()) <= bound
    assert float(xavier_normal(shape, fan_in, fan_out, "cpu").std()) == pytest.approx(
        math.sqrt(2.0 / (fan_in + fan_out)), rel=0.05
    )
    drawn = uniform(shape, -1.0, 3.0, "cpu")
    assert -1.0 <= float(drawn.min()) < float(drawn.max()) <= 3.0
    assert float(normal(shape, 5.0, 0.1, "cpu").mean()) == pytest.approx(5.0, abs=0.01)
    square = orthogonal([16, 16], 1.0, "cpu")
    assert torch.allclose(square @ square.T, torch.eye(16), atol=1e-5)
    assert float(trunc_normal(shape, 0.0, 0.02, -2.0, 2.0, "cpu").abs().max()) <= 0.04
    assert float(uniform_bias(fan_in, [64], "cpu").abs().max()) <= 1 / math.sqrt(fan_in)


def test_custom_initialization() -> None:
    layer = nn.Linear(128, 64)
    # Re-initialize the weight with Xavier normal.
    w = xavier_normal([64, 128], 128, 64, "cpu")
    set_data(next(iter(layer.parameters())), w)
    assert torch.equal(layer.weight, w)


# Reproducibility: Seeding libtorch, CPU-side RNG, Full reproducibility setup


def test_seeding() -> None:
    manual_seed(42)
    first = (torch.rand(3), torch.randn(3), nn.Linear(3, 3).weight.detach().clone())
    manual_seed(42)
    second = (torch.rand(3), torch.randn(3), nn.Linear(3, 3).weight.detach().clone())
    assert all(map(torch.equal, first, second))
    cuda_manual_seed_all(42)  # to re-seed CUDA independently


def test_cpu_side_rng() -> None:
    rng = Rng.from_entropy()  # system-seeded
    assert rng != Rng.from_entropy()
    rng = Rng.seed(42)  # deterministic from seed
    assert rng == Rng.seed(42)
    data = list(range(20))
    assert 0 <= rng.usize(100) < 100
    assert 0 <= rng.f32() < 1
    assert 0 <= rng.f64() < 1
    rng.shuffle(data)
    assert sorted(data) == list(range(20)) != data
    assert rng.bernoulli(0.5) in (True, False)
    assert -5 <= rng.range(-5, 5) < 5
    assert math.isfinite(rng.normal(0.0, 1.0))
    fork = rng.clone()  # an independent stream from the same state
    assert [fork.f64() for _ in range(3)] == [rng.f64() for _ in range(3)]


def test_full_reproducibility_setup() -> None:
    def main() -> tuple[Tensor, float]:
        manual_seed(42)
        rng = Rng.seed(42)
        model = tagged_model()  # weight init uses the seed
        return next(model.parameters()).detach(), rng.f64()

    (weight, drawn), (again, drawn_again) = main(), main()
    assert torch.equal(weight, again)
    assert drawn == drawn_again


# LR Scheduling


def test_lr_scheduling() -> None:
    # Step decay: multiply by gamma every step_size steps
    scheduler: Scheduler = StepDecay(0.01, 30, 0.1)  # base_lr, step_size, gamma
    assert [scheduler.lr(step) for step in (0, 29, 30)] == pytest.approx([0.01, 0.01, 0.001])
    # Cosine annealing
    scheduler = CosineScheduler(0.001, 1e-6, 100)  # base_lr, min_lr, total_steps
    assert (scheduler.lr(0), scheduler.lr(100)) == pytest.approx((0.001, 1e-6))
    # Exponential decay: lr = base_lr * gamma^step
    scheduler = ExponentialLR(0.001, 0.95)  # base_lr, gamma
    assert scheduler.lr(7) == pytest.approx(0.001 * 0.95**7)
    # Multi-step decay: drop lr at specific milestones
    scheduler = MultiStepLR(0.001, (30, 60, 90), 0.1)  # base_lr, milestones, gamma
    assert [scheduler.lr(step) for step in (29, 30, 60, 90)] == pytest.approx(
        [1e-3, 1e-4, 1e-5, 1e-6]
    )
    # One-cycle: warmup then cosine decay (super-convergence)
    scheduler = OneCycleLR(0.01, 1000)  # max_lr, total_steps (30% warmup)
    assert max(range(1000), key=scheduler.lr) == 300
    scheduler = OneCycleLR.with_warmup_frac(0.01, 1000, 0.2)  # custom warmup fraction
    assert max(range(1000), key=scheduler.lr) == 200
    # Cyclic LR: triangle wave between base and max
    scheduler = CyclicLR(1e-4, 1e-2, 500)  # base_lr, max_lr, step_size (symmetric)
    assert [scheduler.lr(step) for step in (0, 500, 1000)] == pytest.approx([1e-4, 1e-2, 1e-4])
    scheduler = CyclicLR.asymmetric(1e-4, 1e-2, 400, 600)  # different up/down phases
    assert [scheduler.lr(step) for step in (0, 400, 1000)] == pytest.approx([1e-4, 1e-2, 1e-4])
    # Warmup wrapper (composes with any scheduler)
    inner = CosineScheduler(0.001, 1e-6, 100)
    scheduler = WarmupScheduler(inner, 0.001, 10)  # inner, target_lr, warmup_steps
    assert all(a < b for a, b in pairwise(scheduler.lr(step) for step in range(10)))
    assert scheduler.lr(10) == inner.lr(0)


def test_reduce_on_plateau_is_driven_by_metrics() -> None:
    # Reduce on plateau (reactive, driven by metrics)
    scheduler = PlateauScheduler(0.001, 5, 0.1, 1e-6)  # base_lr, patience, factor, min_lr
    scheduler.observe(1.0)
    assert scheduler.lr() == 0.001
    for _ in range(5):
        scheduler.observe(1.0)
    assert scheduler.lr() == pytest.approx(0.0001)


# Trend-based training control: Trend queries, LR decay on plateau, Early stopping


def test_trend_queries(model: Graph) -> None:
    g = model
    for value in (5.0, 4.0, 3.0, 2.0, 1.0):
        g.record_scalar("loss", value)
        g.flush(["loss"])  # each flush adds one point
    trend = g.trend("loss")
    assert trend.latest() == 1.0  # most recent epoch value
    assert trend.mean() == 3.0  # mean across all flushed epochs
    assert trend.slope(5) == pytest.approx(-1.0)  # OLS slope over last 5 epochs
    assert trend.improving(5)  # is slope negative? (loss decreasing)
    assert not trend.stalled(5, 1e-4)  # is |slope| below tolerance?
    assert not trend.converged(5, 1e-5)  # is variance below tolerance?


def test_decay_on_plateau_and_early_stopping(model: Graph) -> None:
    g, optimizer = model, torch.optim.Adam(model.parameters(), 0.01)
    epochs = 0
    for _ in range(100):
        epochs += 1
        g.record_scalar("loss", 0.5)
        g.flush(["loss"])
        if g.trend("loss").stalled(10, 1e-4):
            set_lr(optimizer, 0.001)  # reduce learning rate
        if g.trend("loss").converged(12, 1e-5):
            break
    assert optimizer.param_groups[0]["lr"] == 0.001
    assert epochs == 12


# Recording external metrics


def test_recording_external_metrics() -> None:
    g = FlowBuilder.start(nn.Linear(4, 8)).tag("hidden").through(nn.Linear(8, 2)).build()
    batches = [(torch.randn(16, 4), torch.randint(0, 2, (16,))) for _ in range(2)]
    num_epochs = 3
    for _ in range(num_epochs):
        for inputs, target in batches:
            pred = g(inputs)
            loss = cross_entropy(pred, target)
            g.collect(["hidden"])  # from graph tag
            g.record_scalar("loss", loss.item())  # external scalar
        g.flush(["hidden", "loss"])
    assert set(g.latest_metrics()) == {"hidden", "loss"}
    assert len(g.trend("loss")) == len(g.trend("hidden")) == 3


# Trend groups. ETA and timing. Training curves


def test_trend_groups_eta_and_curves(capsys: pytest.CaptureFixture[str]) -> None:
    encoder, head_a, head_b, head_c = nn.Linear(4, 8), *(nn.Linear(8, 2) for _ in range(3))
    g = (
        FlowBuilder.start(encoder)
        .split(head_a, head_b, head_c)
        .tag_group("head")
        .merge(MergeOp.MEAN)
        .build()
    )
    total_epochs = 8
    for epoch in range(total_epochs):
        # ... training ...
        for head in ("head_0", "head_1", "head_2"):
            g.record_scalar(head, 1.0 - 0.1 * epoch)
        g.record_scalar("loss", 2.0 - 0.1 * epoch)
        g.flush([])
        latest = g.trend("loss").latest()
        print(f"epoch {epoch + 1} loss={latest:.4f} ETA {format_duration(g.eta(total_epochs))}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("epoch 1 loss=2.0000 ETA ")
    assert lines[-1].endswith(f"ETA {format_duration(0)}")

    tg = g.trends(["head"])  # expands to head_0, head_1, head_2
    assert tg.names() == ["head_0", "head_1", "head_2"]
    assert tg.all_improving(5)
    assert f"mean slope: {tg.mean_slope(5):.4f}" == "mean slope: -0.1000"

    g.plot_html("training.html", ["loss", "head"])
    g.export_trends("metrics.csv", ["loss"])
    g.write_log("training.log", total_epochs, ["loss"])
    html = Path("training.html").read_text(encoding="utf-8")
    assert "head_2" in html
    assert " src=" not in html  # self-contained
    assert Path("metrics.csv").read_text().splitlines()[:2] == ["epoch,loss", "1,2.0"]
    assert "loss=1.3000" in Path("training.log").read_text()


# Verbosity-gated logging: Levels, Macros


@pytest.mark.parametrize(
    ("level", "out", "err"),
    [
        (Verbosity.QUIET, "", ""),
        (Verbosity.NORMAL, "N", ""),
        (Verbosity.VERBOSE, "NVv", ""),
        (Verbosity.DEBUG, "NVv", "Dd"),
        (Verbosity.TRACE, "NVv", "DTdt"),
    ],
)
def test_levels_and_macros(
    level: Verbosity, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_verbosity(level)
    epoch, loss, elapsed, batch_ms, tensor = 1, 0.5, 1.25, 3, torch.zeros(1)
    # Default level is Normal — suppressed by --quiet, shown otherwise
    msg("N epoch %d: loss=%.4f", epoch, loss)
    # Explicit level by keyword
    msg("V AllReduce: %.1fms", elapsed, level=Verbosity.VERBOSE)
    msg("D per-batch: %sms", batch_ms, level=Verbosity.DEBUG)
    msg("T %r", tensor, level=Verbosity.TRACE)
    # Or the level-named shortcuts
    verbose("v AllReduce: %.1fms", elapsed)
    debug("d per-batch: %sms", batch_ms)
    trace("t %r", tensor)
    captured = capsys.readouterr()
    assert "".join(line[0] for line in captured.out.splitlines()) == out
    assert "".join(line[0] for line in captured.err.splitlines()) == err


def test_arguments_are_not_evaluated_when_the_level_is_off() -> None:
    set_verbosity(Verbosity.NORMAL)

    def expensive() -> str:
        pytest.fail("called at NORMAL")

    trace(expensive)


# Configuration


def test_configuration_by_command_line_environment_and_program() -> None:
    tell = "from epochal import console; print(console.verbosity().name)"
    environment = {**os.environ, "EPOCHAL_VERBOSITY": "verbose"}

    def told(source: str, **changes: str) -> str:
        command = [sys.executable, "-c", source]
        whole = {**environment, **changes}
        return subprocess.check_output(command, env=whole, text=True).strip()

    # 2. Environment variable (no code, no command line): names or integers 0..4
    assert told(tell) == "VERBOSE"
    assert told(tell, EPOCHAL_VERBOSITY="2") == "VERBOSE"
    # 3. Programmatic — overrides the environment variable
    change = "from epochal import console as c; c.set_verbosity(c.Verbosity.DEBUG)"
    assert told(f"{change}; {tell}") == "DEBUG"
    # 1. The command line sets the variable for child processes too
    for flag, name in (
        ("-v", "VERBOSE"),
        ("-vv", "DEBUG"),
        ("-vvv", "TRACE"),
        ("--quiet", "QUIET"),
    ):
        command = [sys.executable, "-m", "epochal", flag, "run", "--", sys.executable, "-c", tell]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert name in done.stdout.split()


# Recipes: gating expensive diagnostics, per-rank tracing


def test_gating_expensive_diagnostics(capsys: pytest.CaptureFixture[str]) -> None:
    collected = []
    for level in (Verbosity.NORMAL, Verbosity.DEBUG):
        set_verbosity(level)
        if enabled(Verbosity.DEBUG):
            collected.append(verbosity())  # skipped at NORMAL
            debug("stats: %r", collected)
    assert collected == [Verbosity.DEBUG]
    assert "stats:" in capsys.readouterr().err


def test_per_rank_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
import os
from epochal.run.console import Verbosity, msg, trace
rank, epoch, ms, grad_norms = int(os.environ["RANK"]), 3, 12.0, [0.5]
msg("rank %d | epoch %d done in %.0fms", rank, epoch, ms, level=Verbosity.VERBOSE)
trace("rank %d | grad norms: %r", rank, grad_norms)
"""
    monkeypatch.setenv("EPOCHAL_VERBOSITY", "trace")  # once at launch, for every rank
    for rank in (0, 1):
        done = subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "RANK": str(rank)},
        )
        assert done.stdout == f"rank {rank} | epoch 3 done in 12ms\n"
        assert done.stderr == f"rank {rank} | grad norms: [0.5]\n"


# Peak VRAM profiling


def test_peak_vram_profiling(model: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    cuda_empty_cache()
    cuda_reset_peak_stats()
    model(torch.randn(8, 4))  # ... training step or inference ...
    peak_alloc = cuda_peak_active_bytes()  # bytes used by tensors
    peak_reserved = cuda_peak_reserved_bytes()  # bytes held by allocator
    print(f"Peak alloc: {peak_alloc / 1048576:.0f} MB")
    print(f"Peak reserved: {peak_reserved / 1048576:.0f} MB")
    assert 0 <= peak_alloc <= peak_reserved
    assert "Peak alloc: " in capsys.readouterr().out
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        assert peak_alloc == torch.cuda.max_memory_allocated()
        assert peak_reserved == torch.cuda.max_memory_reserved()


# CUDA Graphs


def test_cuda_graphs() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 0.05, capturable=device == "cuda")
    # Static tensors (reused across replays via copy_)
    static_input = torch.zeros(16, 4, device=device)
    static_target = torch.zeros(16, 2, device=device)

    # Capture training step
    def step() -> Tensor:
        pred = model(static_input)
        loss = mse_loss(pred, static_target)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    graph = cuda_graph_capture(3, None, step)

    # Training loop: copy data, replay captured graph
    losses = []
    x = torch.randn(16, 4)
    for _ in range(50):
        static_input.copy_(x, non_blocking=True)
        static_target.copy_(x[:, :2], non_blocking=True)
        graph.replay()
        losses.append(float(graph.output))
    assert losses[-1] < losses[0] / 2


# Putting it together


def test_putting_it_together(batches: Batches) -> None:
    # Build model with tagged sections.
    g = (
        FlowBuilder.start(nn.Linear(4, 64))
        .tag("encoder")
        .through(nn.GELU())
        .through(nn.Linear(64, 64))
        .tag("body")
        .through(nn.GELU())
        .through(nn.Linear(64, 2))
        .tag("head")
        .build()
    )
    # Set up training.
    params = list(g.parameters())
    optimizer = torch.optim.Adam(params, 0.001)
    scheduler = CosineScheduler(0.001, 1e-6, 100)
    g.train()

    for epoch in range(100):
        for inputs, target in batches:
            optimizer.zero_grad()
            output = g(inputs)
            loss = mse_loss(output, target)
            loss.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm(params, 1.0)
            optimizer.step()
            g.collect(["head"])
            g.record_scalar("loss", loss.item())
        g.flush(["head", "loss"])
        g.end_epoch()
        set_lr(optimizer, scheduler.lr(epoch))
        # Early stop when converged.
        if g.trend("loss").converged(5, 1e-5):
            break
    # Save.
    g.eval()
    g.save_checkpoint("model.fdl")
    assert g.trend("loss").latest() < g.trend("loss").values()[0] / 10
    assert Path("model.fdl").stat().st_size > sum(param.numel() for param in params) * 4
