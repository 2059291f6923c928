"""What `watch()` finds besides norms: evaluation modes, resets, buffers, initial weights."""

from __future__ import annotations

import copy
import datetime
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import epochal
from epochal.run.run import Run
from epochal.torch import watch_checks
from epochal.torch.measure import Reduced
from epochal.torch.watch_checks import frozen_fields, scale_fields, weight_layers
from epochal.torch.watching import watch
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

Optimizer = torch.optim.Optimizer
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def small_model(device: str = "cpu") -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(device)


def loss_of(model: nn.Module) -> Any:
    device = next(model.parameters()).device
    return (model(torch.randn(16, 4, device=device)) - 1).square().mean()


def sgd(model: nn.Module) -> Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def kept_events(start_run: StartRun, model: nn.Module, train: Callable[[], object]) -> list[Any]:
    """What is told of a watched training that leaves no hook, and in which nothing failed."""
    run = start_run()
    watch(model, run)
    train()
    run.finish()
    assert not any(one._backward_hooks for one in model.parameters())
    told = of_kind(run.dir, "event")
    assert [one["name"] for one in told if one["name"] == "internal-error"] == []
    return [one for one in told if one["name"] == "gradients-kept"]


def looped(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    steps: int = 30,
    passes: int = 1,
    before_step: Callable[[], object] = lambda: None,
    reset: Callable[[], object] = lambda: None,
) -> Callable[[], None]:
    def train() -> None:
        for _ in range(steps):
            for _ in range(passes):
                loss_of(model).backward()
            before_step()
            optimizer.step()
            reset()

    return train


def adam(model: nn.Module) -> Optimizer:
    return torch.optim.Adam(model.parameters())


@pytest.mark.parametrize(
    ("make", "clips", "passes"), [(sgd, False, 1), (adam, True, 1), (sgd, True, 4)]
)
def test_a_loop_without_reset_is_told_once(
    start_run: StartRun, make: Callable[[nn.Module], Optimizer], clips: bool, passes: int
) -> None:
    model = small_model()

    def clip() -> None:
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)

    train = looped(model, make(model), passes=passes, before_step=clip)
    (event,) = kept_events(start_run, model, train)
    assert (event["at_step"], event["steps"], event["parameter"]) == (5, 5, "0.weight")


def test_a_closure_without_reset_is_told(start_run: StartRun) -> None:
    model = small_model()
    optimizer = sgd(model)

    def closure() -> float:
        loss = loss_of(model)
        loss.backward()
        return float(loss.detach())

    assert (
        len(kept_events(start_run, model, lambda: [optimizer.step(closure) for _ in range(9)])) == 1
    )


def test_one_of_two_optimizers_without_reset_is_told(start_run: StartRun) -> None:
    model = small_model()
    body, head = sgd(model[0]), sgd(model[2])

    def train() -> None:
        for _ in range(9):
            body.zero_grad()
            loss_of(model).backward()
            body.step()
            head.step()

    (event,) = kept_events(start_run, model, train)
    assert event["parameter"] == "2.weight"


def set_none(model: nn.Module) -> None:
    for one in model.parameters():
        one.grad = None


def zero_data(model: nn.Module) -> None:
    for one in model.parameters():
        assert one.grad is not None
        one.grad.data.zero_()


def scale_by_nothing(model: nn.Module) -> None:
    for one in model.parameters():
        assert one.grad is not None
        one.grad.mul_(0)


RESETS: dict[str, Callable[[nn.Module], object]] = {
    "None": lambda model: model.zero_grad(),
    "zeros": lambda model: model.zero_grad(set_to_none=False),
    "set None": set_none,
    "zeros of data": zero_data,
    "times zero": scale_by_nothing,
}


@pytest.mark.parametrize("how", RESETS)
def test_gradients_that_are_reset_are_fine(start_run: StartRun, how: str) -> None:
    model = small_model()
    train = looped(model, sgd(model), passes=2, reset=lambda: RESETS[how](model))
    assert kept_events(start_run, model, train) == []


@pytest.mark.parametrize("to_none", [False, True])
def test_a_critic_that_is_reset_before_its_own_pass_is_fine(
    start_run: StartRun, to_none: bool
) -> None:
    pair = nn.ModuleDict({"critic": nn.Linear(4, 1), "maker": nn.Linear(2, 4)})
    critic, maker = pair["critic"], pair["maker"]
    of_critic, of_maker = sgd(critic), sgd(maker)

    def train() -> None:
        for _ in range(30):
            of_critic.zero_grad(set_to_none=to_none)
            (
                critic(maker(torch.randn(8, 2)).detach()) - critic(torch.randn(8, 4))
            ).mean().backward()
            of_critic.step()
            of_maker.zero_grad(set_to_none=to_none)
            (-critic(maker(torch.randn(8, 2)))).mean().backward()
            of_maker.step()

    assert kept_events(start_run, pair, train) == []


def test_a_closure_that_resets_is_fine(start_run: StartRun) -> None:
    model = small_model()
    optimizer: Any = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> float:
        optimizer.zero_grad(set_to_none=False)
        loss = loss_of(model)
        loss.backward()
        return float(loss.detach())

    assert kept_events(start_run, model, lambda: [optimizer.step(closure) for _ in range(20)]) == []


def test_gradients_that_are_set_by_the_loop_need_no_reset(start_run: StartRun) -> None:
    model = small_model()
    optimizer = sgd(model)

    def train() -> None:
        for _ in range(60):
            weights = list(model.parameters())
            gradients = torch.autograd.grad(loss_of(model), weights)
            for one, gradient in zip(weights, gradients, strict=True):
                one.grad = gradient
            optimizer.step()

    assert kept_events(start_run, model, train) == []


def test_sparse_gradients_say_nothing(start_run: StartRun) -> None:
    model = nn.Embedding(10, 4, sparse=True)
    optimizer = sgd(model)

    def train() -> None:
        for _ in range(60):
            model(torch.arange(4)).square().mean().backward()
            optimizer.step()

    assert kept_events(start_run, model, train) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_a_compiled_model_without_reset_is_told(start_run: StartRun) -> None:
    model = small_model()
    compiled: Any = torch.compile(model, backend="aot_eager")
    assert len(kept_events(start_run, compiled, looped(compiled, sgd(model)))) == 1
    torch.compiler.reset()


def test_nothing_is_looked_at_once_it_is_known(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, run = small_model(), start_run()
    optimizer = sgd(model)
    watch(model, run)
    looped(model, optimizer, steps=4, reset=model.zero_grad)()
    assert not any(one._backward_hooks for one in model.parameters())
    taken: list[object] = []
    monkeypatch.setattr(watch_checks, "_sample_of", taken.append)
    looped(model, optimizer, steps=4)()
    assert taken == []
    run.finish()


def test_copies_and_files_of_a_watched_model_are_without_hooks(start_run: StartRun) -> None:
    model, run = small_model(), start_run()
    watch(model, run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert not any(one._backward_hooks for one in twin.parameters())
    run.finish()


def test_gradients_are_the_same_with_and_without(start_run: StartRun) -> None:
    def trained(*, watched: bool) -> list[torch.Tensor]:
        model, run = small_model(), start_run()
        if watched:
            watch(model, run)
        looped(model, sgd(model), steps=8)()
        run.finish()
        return [
            *model.parameters(),
            *(one.grad for one in model.parameters() if one.grad is not None),
        ]

    pairs = zip(trained(watched=True), trained(watched=False), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@needs_gpu
@pytest.mark.parametrize("how", [None, *RESETS])
def test_on_a_gpu_nothing_waits(start_run: StartRun, how: str | None) -> None:
    model = small_model("cuda")
    run = start_run()
    watch(model, run)
    reset = (lambda: None) if how is None else (lambda: RESETS[how](model))
    optimizer = sgd(model)
    looped(model, optimizer, steps=1, reset=reset)()  # a watched step and first allocations
    torch.cuda.set_sync_debug_mode("error")
    try:
        looped(model, optimizer, steps=19, reset=reset)()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    looped(model, optimizer, steps=1, reset=reset)()
    run.finish()
    told = [one["name"] for one in of_kind(run.dir, "event")]
    assert ("gradients-kept" in told) == (how is None)


# -- evaluations and running statistics ------------------------------------------------------------


def model_with(*parts: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), *parts, nn.Linear(8, 2))


def evaluated(model: nn.Module, steps: int, *, evaluates: Any = None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        if evaluates is not None:
            evaluates()


def evaluation(model: nn.Module, *, mode: bool) -> Any:
    def evaluate() -> None:
        model.train(mode)
        with torch.no_grad():
            model(torch.randn(16, 4))

    return evaluate


def events(run: Run) -> list[dict[str, Any]]:
    return [one for one in of_kind(run.dir, "event") if one["name"] == "evaluation-passes"]


def test_passes_in_training_mode_are_told(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.BatchNorm1d(8), nn.Dropout(0.3))
    watch(model, run)
    evaluated(model, 3, evaluates=evaluation(model, mode=True))
    run.finish()
    told = events(run)
    assert len(told) == 3
    known = ("passes", "dropouts", "batchnorms", "module", "share")
    assert [told[0][name] for name in known] == [1, 1, 1, "2", 0.3]


def test_right_evaluations_after_wrong_ones_are_told(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    evaluated(model, 1, evaluates=evaluation(model, mode=True))
    evaluated(model, 2, evaluates=evaluation(model, mode=False))
    run.finish()
    assert [one["dropouts"] for one in events(run)] == [1, 0, 0]


def test_a_sample_beside_a_wrong_evaluation_does_not_make_it_right(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    wrong, sample = evaluation(model, mode=True), evaluation(model, mode=False)
    evaluated(model, 1, evaluates=wrong)
    evaluated(model, 1, evaluates=lambda: (wrong(), sample()))
    run.finish()
    assert [one["dropouts"] for one in events(run)] == [1]


def test_a_watched_model_can_be_saved_whole(start_run: StartRun, tmp_path: Path) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    run.finish()
    code = (
        "import pickle, sys, torch\n"
        "sys.modules['epochal'] = None\n"
        f"model = pickle.load(open({str(tmp_path / 'model.pkl')!r}, 'rb'))\n"
        "print(tuple(model.eval()(torch.ones(3, 4)).shape))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(3, 2)"


def test_a_compiled_model_is_one_graph(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.Dropout(0.3))
    watch(model, run)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert compiled(torch.ones(3, 4)).shape == (3, 2)
    evaluated(model, 1)
    run.finish()


@pytest.mark.parametrize(("momentum", "is_still"), [(0.1, False), (0.0, True)])
def test_running_statistics_are_recorded(
    start_run: StartRun, momentum: float, *, is_still: bool
) -> None:
    run, model = start_run(), model_with(nn.BatchNorm1d(8, momentum=momentum))
    watch(model, run, every=1)
    evaluated(model, 3)
    run.finish()
    norms = [one["m"]["running_stats/1/norm"] for one in of_kind(run.dir, "metrics")]
    assert (len(set(norms)) == 1) == is_still


def test_batchnorm_in_evaluation_mode_is_frozen_on_purpose(start_run: StartRun) -> None:
    run, model = start_run(), model_with(nn.BatchNorm1d(8))
    watch(model, run, every=1)
    model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
    run.finish()
    (record,) = of_kind(run.dir, "metrics")
    assert not any(name.startswith("running_stats/") for name in record["m"])


# -- exchanged buffers -----------------------------------------------------------------------------


STEPS = 8


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=120),
    )
    for name, wraps in (("wrapped", True), ("inner", False)):
        train(Path(folder) / f"{name}{rank}", wraps=wraps)
    dist.destroy_process_group()


def train(folder: Path, *, wraps: bool) -> None:
    run = epochal.init("ranks", dir=folder, console=False, capture=False)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    wrapped = DistributedDataParallel(model)
    epochal.watch(wrapped if wraps else model, run, every=1, histograms=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        with run.phase("forward"):
            loss = wrapped(torch.ones(8, 4)).sum()
        with run.phase("backward"):
            loss.backward()
        optimizer.step()
        run.log({"loss": float(loss.detach())}, step=step)
    copy.deepcopy(model)(torch.ones(8, 4))
    assert isinstance(pickle.loads(pickle.dumps(model)), nn.Sequential)
    run.finish()


def test_the_exchange_of_a_wrapped_model_is_the_phase_sync(tmp_path: Path) -> None:
    spawn(work, (str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    for name in ("wrapped0", "wrapped1", "inner0", "inner1"):
        (written,) = tmp_path.glob(f"{name}/**/run.json")
        (record,) = of_kind(written.parent, "phases")
        assert all(one["name"] != "internal-error" for one in of_kind(written.parent, "event"))
        assert {"phase/sync", "phase/forward", "phase/backward"} <= set(record["m"])


def test_an_exchange_outside_of_every_phase_is_not_timed(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    with epochal.init("alone", dir=tmp_path / "run", console=False, capture=False) as run:
        wrapped = DistributedDataParallel(nn.BatchNorm1d(4))
        epochal.watch(wrapped, run, every=1)
        for step in range(3):
            wrapped(torch.ones(8, 4))
            run.log({"loss": 1.0}, step=step)
    dist.destroy_process_group()
    assert of_kind(run.dir, "phases") == []


# -- initial weights -------------------------------------------------------------------------------


def counted(model: nn.Module) -> tuple[int, int]:
    parameters = dict(model.named_parameters())
    shapes = {name: tuple(one.shape) for name, one in parameters.items()}
    norms = {name: float(one.detach().norm()) for name, one in parameters.items()}
    fields = frozen_fields(list(parameters), shapes, norms)
    return fields["initialised"], fields["others"]


NEW_MODELS: list[Callable[[], nn.Module]] = [
    lambda: nn.Sequential(nn.Linear(20, 64), nn.Linear(64, 64)),
    lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 32, 3)),
    lambda: nn.TransformerEncoderLayer(32, 4, 64),
    lambda: nn.GRU(16, 32),
    lambda: nn.LSTM(16, 32),
    lambda: nn.Sequential(nn.Embedding(100, 32), nn.LayerNorm(32), nn.Linear(32, 32)),
]


@pytest.mark.parametrize("build", NEW_MODELS)
def test_new_layers_fit(build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    fitting, others = counted(build())
    assert fitting >= 3
    assert others == 0


def test_weights_that_were_trained_do_not_fit() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.Linear(64, 64), nn.Linear(64, 64))
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(1.25)
    fitting, others = counted(model)
    assert others >= fitting


def reduced(parameter: torch.Tensor) -> Reduced:
    norm = float(parameter.detach().norm())
    return Reduced(norm, 0.0, 0.0, 0.0, 0.0, 0.0, 0, parameter.numel(), [])


def scale_of(model: nn.Module, factor: float = 1.0) -> dict[str, Any] | None:
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for one in parameters.values():
            if one.dim() > 1:
                one.mul_(factor)
    rows = {name: reduced(one) for name, one in parameters.items()}
    shapes = {name: one.shape for name, one in parameters.items()}
    return scale_fields(rows, shapes, weight_layers(model, parameters))


def he(model: nn.Module) -> nn.Module:
    for one in model.parameters():
        if one.dim() > 1:
            nn.init.kaiming_normal_(one)
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: nn.Sequential(nn.Linear(20, 64), nn.Linear(64, 2)),
    "he": lambda: he(nn.Sequential(nn.Linear(20, 64), nn.Conv2d(3, 16, 3), nn.Linear(64, 64))),
    "convolutions": lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.ConvTranspose1d(16, 4, 3)),
    "attention": lambda: nn.TransformerEncoderLayer(32, 4, 64),
    "recurrent": lambda: nn.LSTM(500, 8, num_layers=2),
    "texts": lambda: nn.Sequential(nn.Embedding(100, 64), nn.Linear(64, 64), nn.Linear(64, 5)),
    "bilinear": lambda: nn.Sequential(nn.Bilinear(8, 80, 4), nn.Linear(4, 4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_usual_weights_are_no_event_and_ten_times_their_size_is(name: str) -> None:
    torch.manual_seed(0)
    assert scale_of(MODELS[name]()) is None
    large = scale_of(MODELS[name](), 10)
    assert large is not None
    assert large["scale"] > 5
    small = scale_of(MODELS[name](), 1e-3)
    assert small is not None
    assert small["scale"] < 0.01


def test_tables_alone_may_start_at_any_size_up_to_one() -> None:
    torch.manual_seed(0)
    tables = nn.ModuleList([nn.Embedding(50, 8), nn.Embedding(20, 8)])
    assert scale_of(tables, 1e-3) is None
    found = scale_of(tables, 1e4)
    assert found is not None
    assert found["scale"] == pytest.approx(10, rel=0.2)
    assert found["parameters"] == 2


def test_watching_records_an_unusual_scale_once(start_run: StartRun) -> None:
    torch.manual_seed(0)
    run, model = start_run(), nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))
    with torch.no_grad():
        for one in model.parameters():
            one.mul_(10)
    epochal.watch(model, run, every=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for step in range(3):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        run.log({"loss": 1.0}, step=step)
    run.finish()
    (event,) = [one for one in of_kind(run.dir, "event") if one["name"] == "initial-scale"]
    assert (event["at_step"], event["parameters"]) == (0, 2)
    assert event["scale"] == pytest.approx(10, rel=0.2)
