from __future__ import annotations

import copy
import gc
import math
import time
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from epochal.errors import UsageError
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run
from epochal.store.local.by_path import load_run
from epochal.torch.measure import Rows, reduce_tensors
from epochal.torch.structure import named_parameters, plain_name
from epochal.torch.watching import watch
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def small_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(model: nn.Module, steps: int, *, lr: float = 0.1, device: str = "cpu") -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    inputs = torch.ones(16, 4, device=device)
    for _ in range(steps):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def records(run: Run, kind: str) -> list[dict[str, Any]]:
    return of_kind(run.dir, kind)


def events(run: Run, name: str) -> list[dict[str, Any]]:
    return [one for one in of_kind(run.dir, "event") if one["name"] == name]


def test_norms_and_update_ratios_are_those_of_the_watched_step(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    before = copy.deepcopy(model)
    watch(model, run, every=10)
    train(model, 1)
    run.finish()
    (record,) = records(run, "metrics")
    weight = dict(before.named_parameters())["0.weight"]
    gradient = dict(model.named_parameters())["0.weight"].grad
    assert gradient is not None
    assert record["step"] == 0
    assert record["m"]["params/0.weight/norm"] == pytest.approx(weight.norm().item(), rel=1e-5)
    assert record["m"]["grads/0.weight/norm"] == pytest.approx(gradient.norm().item(), rel=1e-5)
    assert record["m"]["update_ratio/0.weight"] == pytest.approx(
        0.1 * gradient.norm().item() / weight.norm().item(), rel=1e-4
    )


def test_histograms_count_every_value(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    watch(model, run, every=5)
    train(model, 6)
    run.finish()
    found = {(one["name"], one["step"]): one for one in records(run, "histogram")}
    assert {name for name, _ in found} == {
        f"{prefix}/{name}"
        for prefix in ("Parameters", "Gradients")
        for name in ("0.weight", "0.bias", "2.weight", "2.bias")
    }
    assert {step for _, step in found} == {0, 5}
    one = found["Parameters/0.weight", 0]
    assert sum(one["counts"]) == one["count"] == 32
    assert one["lo"] == one["min"] < one["max"] == one["hi"]


def test_a_histogram_is_that_of_numpy(start_run: StartRun) -> None:
    np = pytest.importorskip("numpy")
    run, model = start_run(), small_model()
    values = model.get_parameter("0.weight").detach().numpy().copy()
    watch(model, run)
    train(model, 1)
    run.finish()
    one = next(r for r in records(run, "histogram") if r["name"] == "Parameters/0.weight")
    expected, _ = np.histogram(values.astype(np.float64), bins=64, range=(one["lo"], one["hi"]))
    assert (
        abs(np.array(one["counts"]) - expected).sum() <= 2
    )  # a value on a border may fall either way


@pytest.mark.parametrize("scale", [1e-40, 1.0, 3e38])
def test_bins_are_those_of_numpy_at_any_scale(scale: float) -> None:
    np = pytest.importorskip("numpy")
    values = torch.tensor([-1.0, -0.3, 0.2, 0.6, 1.0]) * scale
    (row,) = Rows(reduce_tensors([values], bins=8)).read()
    expected, _ = np.histogram(values.numpy().astype(np.float64), bins=8)
    assert row.counts == expected.tolist()


def test_steps_go_on_where_the_run_stands(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    run.log({"loss": 1.0}, step=99)
    watch(model, run, every=100, histograms=False)
    train(model, 2)
    run.finish()
    assert [one["step"] for one in records(run, "metrics")] == [99, 100, 101]


def test_the_first_parameter_with_a_non_finite_gradient_is_named(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    model.get_parameter("2.weight").register_hook(lambda gradient: gradient * math.inf)  # type: ignore[no-untyped-call]
    watch(model, run)
    train(model, 1)
    run.finish()
    (event,) = events(run, "nonfinite-gradient")
    assert event["parameter"] == "2.weight"


def test_a_removed_watch_records_nothing_more_and_lets_the_model_go(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    watching = watch(model, run, every=1)
    train(model, 1)
    watching.remove()
    train(model, 3)
    assert len(records(run, "metrics")) == 1
    reference = weakref.ref(model)
    run.finish()
    del model, watching, run
    OPEN_RUNS.clear()
    gc.collect()
    assert reference() is None


def test_training_is_the_same_with_and_without(start_run: StartRun) -> None:
    alone, watched = small_model(), small_model()
    torch.manual_seed(7)
    train(alone, 5)
    expected_noise = torch.rand(3)
    watch(watched, start_run(), every=1)
    torch.manual_seed(7)
    train(watched, 5)
    assert torch.equal(torch.rand(3), expected_noise)
    for mine, theirs in zip(alone.parameters(), watched.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_another_model_s_optimizer_is_not_watched(start_run: StartRun) -> None:
    run = start_run()
    watch(small_model(), run, every=1)
    train(small_model(), 3)
    run.finish()
    assert records(run, "metrics") == []


def test_a_compiled_model_is_watched_under_its_plain_names(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    compiled = torch.compile(model, backend="eager")
    assert isinstance(compiled, nn.Module)
    watch(compiled, run, histograms=False)
    train(model, 1)
    run.finish()
    assert "params/0.weight/norm" in records(run, "metrics")[0]["m"]


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        ("_orig_mod.layer.weight", "layer.weight"),
        ("_fsdp_wrapped_module.a._fsdp_wrapped_module.b", "a.b"),
        ("block._checkpoint_wrapped_module.w", "block.w"),
        ("my.module.weight", "my.module.weight"),
    ],
)
def test_names_lose_what_wrappers_added(wrapped: str, plain: str) -> None:
    assert plain_name(wrapped) == plain


def test_data_parallel_adds_nothing_to_names() -> None:
    names = [name for name, _ in named_parameters(nn.DataParallel(small_model()))]
    assert names[0] == "0.weight"


def test_an_optimizer_in_place_of_the_run_is_refused_with_a_sentence() -> None:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match=r"watch\(\): run= is .* not a SGD"):
        watch(model, optimizer)  # type: ignore[arg-type]


def test_every_must_be_at_least_one(start_run: StartRun) -> None:
    with pytest.raises(UsageError, match="every must be at least 1, got 0"):
        watch(small_model(), start_run(), every=0)


def test_large_tensors_are_sampled_on_the_cpu_and_counted_whole(start_run: StartRun) -> None:
    run = start_run()
    model = nn.Linear(4, 50_000, bias=False)
    watch(model, run)
    train(model, 1)
    run.finish()
    one = next(r for r in records(run, "histogram") if r["name"] == "Parameters/weight")
    assert one["count"] == 200_000
    assert sum(one["counts"]) == pytest.approx(200_000, rel=0.01)


@needs_gpu
@pytest.mark.cuda
def test_a_watched_step_never_waits_for_the_gpu(start_run: StartRun) -> None:
    run, model = start_run(), small_model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.ones(16, 4, device="cuda")
    watch(model, run, every=2)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(6):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    run.finish()
    assert [one["step"] for one in records(run, "metrics")] == [0, 1, 2, 4]
    assert all(sum(one["counts"]) == one["count"] for one in records(run, "histogram"))


def test_one_non_finite_value_among_many_is_found_though_the_histogram_is_sampled(
    start_run: StartRun,
) -> None:
    run = start_run()
    model = nn.Linear(4, 50_000, bias=False)
    poison = torch.zeros(50_000, 4)
    poison[1, 1] = math.inf
    model.weight.register_hook(lambda gradient: gradient + poison)  # type: ignore[no-untyped-call]
    watch(model, run)
    train(model, 1)
    run.finish()
    assert events(run, "nonfinite-gradient")[0]["parameter"] == "weight"


def test_what_is_watched_is_not_printed(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run, model = start_run(console=True), small_model()
    watch(model, run, every=1)
    train(model, 3)
    run.log_step(2, 1.0, 16, 10.0, 0.5, 0.25, 0.1, metrics={"share": 0.5})
    run.finish()
    shown = capsys.readouterr().err
    assert "params/" not in shown
    assert "loss: 0.2500" in shown
    assert "share: 0.5000" in shown


def test_the_number_of_the_first_step_can_be_given(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    watch(model, run, every=10, step=29)
    train(model, 2)
    run.finish()
    assert [record["step"] for record in records(run, "metrics")] == [29, 30]
    assert {record["step"] for record in records(run, "histogram")} == {30}


def watched_steps(run: Run) -> list[int]:
    return [r["step"] for r in records(run, "metrics") if "params/0.weight/norm" in r["m"]]


def train_and_log(run: Run, model: nn.Module, steps: range, *, log_every: int = 1) -> None:
    for step in steps:
        train(model, 1)
        if (step + 1) % log_every == 0:
            run.log({"loss": 1.0}, step=step)


@pytest.mark.parametrize("log_every", [1, 4])
@pytest.mark.parametrize("first", [0, 12, 40])
def test_a_resumed_loop_says_where_it_goes_on(
    start_run: StartRun, first: int, log_every: int
) -> None:
    killed, model = start_run(), small_model()
    train_and_log(killed, model, range(23))
    killed.finish("crashed")
    run = start_run(resume="must")
    watch(model, run, every=4, histograms=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(first, first + 10):
        optimizer.step()
        if (step + 1) % log_every == 0:
            run.log({"loss": 1.0}, step=step)
    run.finish()
    assert watched_steps(run) == [first + n for n in (0, 1, 4, 8, 9)]
    assert [one["at_step"] for one in events(run, "optimizer")] == [first]


def test_two_optimizers_of_one_model_make_one_step(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.SGD(model[2].parameters(), lr=0.1)
    watch(model, run, every=2, histograms=False)
    for _ in range(5):
        model(torch.ones(16, 4)).square().mean().backward()
        first.step()
        second.step()
    run.finish()
    assert watched_steps(run) == [0, 1, 2, 4]
    for record in records(run, "metrics"):
        for name, _ in model.named_parameters():
            assert record["m"][f"update_ratio/{name}"] > 0


def test_what_is_frozen_has_neither_gradient_nor_ratio(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    model(torch.ones(2, 4)).sum().backward()
    model[0].requires_grad_(False)  # and keeps the gradient it had
    watch(model, run, every=1)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    run.finish()
    for record in records(run, "metrics"):
        of_frozen = {name for name in record["m"] if "0.weight" in name}
        assert of_frozen == {"params/0.weight/norm"}
        assert "update_ratio/2.weight" in record["m"]
    assert not [r for r in records(run, "histogram") if r["name"] == "Gradients/0.weight"]


def test_a_frozen_parameter_that_moves_is_shown(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    model(torch.ones(2, 4)).sum().backward()
    model[0].requires_grad_(False)  # its old gradient goes on moving it
    watch(model, run, every=1)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    run.finish()
    (record,) = records(run, "metrics")
    assert record["m"]["update_ratio/0.weight"] > 0


def findings(run: Run) -> list[str]:
    return [str(entry.record["rule"]) for entry in load_run(run.dir).findings(most=None)]


def test_layers_frozen_on_purpose_are_no_finding(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    model(torch.ones(2, 4)).sum().backward()
    model[0].requires_grad_(False)
    watch(model, run, every=1)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        run.log({"loss": loss.item()})
    run.finish()
    assert "untrained-parameters" not in findings(run)


def test_a_pause_between_the_step_and_its_log_is_no_fault_of_the_clock(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    monkeypatch.setattr("epochal.run.run._time_ns", lambda: now_ns)
    run, model = start_run(), small_model()
    watch(model, run, every=1, histograms=False)
    for _ in range(2):
        train(model, 1)
        now_ns += 1_200_000_000
        run.log({"loss": 1.0})
    run.finish()
    watched, logged = (
        [record["t"] for record in records(run, "metrics") if ("loss" in record["m"]) is is_logged]
        for is_logged in (False, True)
    )
    assert [round(b - a, 1) for a, b in zip(watched, logged, strict=True)] == [1.2, 1.2]
    assert findings(run) == []


def test_a_fault_of_watching_reaches_no_training(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, model = start_run(), nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(model, run, every=1)
    monkeypatch.setattr("epochal.torch.watching.reduce_tensors", lambda *_, **__: 1 / 0)
    before = model.weight.detach().clone()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight, before)
    run.finish()
    told = [one for one in of_kind(run.dir, "event") if one["name"] == "internal-error"]
    assert [one["member"] for one in told] == ["watch"]


def test_frozen_parameters_are_counted_once(start_run: StartRun) -> None:
    torch.manual_seed(0)
    run = start_run()
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.Linear(64, 2))
    for parameter in (*model[0].parameters(), *model[2].parameters()):
        parameter.requires_grad_(False)
    watch(model, run, every=1)
    train(model, 3)
    run.finish()
    (event,) = events(run, "frozen-parameters")
    assert (event["parameter"], event["parameters"], event["of"]) == ("0.weight", 4, 6)
    assert (event["initialised"], event["others"]) == (4, 0)


def test_a_frozen_copy_of_what_is_trained_is_not_as_initialised(start_run: StartRun) -> None:
    run, net = start_run(), nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 2))
    pair = nn.ModuleDict({"net": net, "target": copy.deepcopy(net).requires_grad_(False)})
    watch(pair, run, every=1)
    train(pair["net"], 2)
    run.finish()
    (event,) = events(run, "frozen-parameters")
    assert (event["parameters"], event["initialised"]) == (6, 0)


def test_gradients_that_no_step_follows_are_an_event(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    watch(model, run)
    for _ in range(250):
        model(torch.ones(16, 4)).square().mean().backward()
    run.finish()
    (event,) = events(run, "no-optimizer-step")
    assert event["passes"] == 200


def test_accumulated_gradients_with_a_step_are_fine(start_run: StartRun) -> None:
    run, model = start_run(), small_model()
    watch(model, run)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in range(450):
        model(torch.ones(16, 4)).square().mean().backward()
        if n % 150 == 149:
            optimizer.step()
            optimizer.zero_grad()
    run.finish()
    assert events(run, "no-optimizer-step") == events(run, "gradients-kept") == []
