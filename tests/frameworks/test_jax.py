"""Real arrays of JAX and Flax are logged without waiting for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

import epochal
from tests.frameworks.reading import points, records, run_folders, script, status


def _multiplied(matrix: Any, seed: Any) -> Any:
    turned = jax.lax.fori_loop(0, 10, lambda _, m: jnp.tanh(m @ matrix), matrix)
    return turned.sum() * 0.0 + seed


_slow = jax.jit(_multiplied)


def slow_value(seed: float) -> Any:
    """A value that takes long to compute: many products of large matrices."""
    return _slow(jnp.ones((1500, 1500)), jnp.float32(seed))


def test_a_value_that_is_not_computed_is_not_waited_for(runs: Path) -> None:
    run = epochal.init(name="slow")
    slow_value(0.0).block_until_ready()  # compiled
    value = slow_value(2.0)
    run.log({"loss": value, "lr": 0.1}, step=1)
    was_ready = value.is_ready()
    run.log({"loss": 1.0}, step=2)
    run.finish()
    assert not was_ready
    (folder,) = run_folders(runs)
    assert points(folder, "loss") == {1: 2.0, 2: 1.0}
    assert points(folder, "lr") == {1: 0.1}


def test_flush_has_every_value(runs: Path) -> None:
    run = epochal.init(name="slow")
    run.log({"loss": slow_value(3.0)}, step=1)
    run.flush()
    (folder,) = run_folders(runs)
    assert points(folder, "loss") == {1: 3.0}
    run.finish()


def test_every_type_of_number(runs: Path) -> None:
    run = epochal.init(name="types")
    kinds = {
        "bf16": jnp.bfloat16(1.5),
        "i32": jnp.int32(3),
        "flag": jnp.bool_(True),
        "one": jnp.ones((1,)),
        "nan": jnp.float32(np.nan),
    }
    run.log(kinds, step=0)
    run.log({"many": jnp.arange(5.0)}, step=0)
    run.finish()
    (folder,) = run_folders(runs)
    found = {name: points(folder, name)[0] for name in kinds}
    assert np.isnan(found.pop("nan"))
    assert found == {"bf16": 1.5, "i32": 3, "flag": 1, "one": 1.0}
    assert any(r["log"] == "histogram" for r in records(folder))


def test_an_array_that_was_donated_is_said_to_be_lost(runs: Path) -> None:
    run = epochal.init(name="donated")
    value = slow_value(1.0)
    run.log({"loss": value}, step=1)
    value.delete()
    run.finish()
    (folder,) = run_folders(runs)
    lost = [r for r in records(folder) if r.get("name") == "values-lost"]
    assert lost or points(folder, "loss") == {1: 1.0}


def trained(run: epochal.Run, steps: int) -> list[float]:
    model = nn.Dense(1)
    x = jax.random.normal(jax.random.key(0), (32, 4))
    params = model.init(jax.random.key(1), x)
    optimizer = optax.adam(0.1)
    state = optimizer.init(params)

    def step(params: Any, state: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: ((model.apply(p, x) - 1) ** 2).mean())(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    compiled, losses = jax.jit(step), []
    for number in range(steps):
        params, state, loss = compiled(params, state)
        run.log({"train/loss": loss}, step=number)
        losses.append(loss)
    return [float(loss) for loss in losses]


def test_a_flax_model_is_trained(runs: Path) -> None:
    with epochal.init(name="dense") as run:
        losses = trained(run, 20)
    (folder,) = run_folders(runs)
    assert points(folder, "train/loss") == pytest.approx(dict(enumerate(losses)))


def test_a_crash_keeps_what_was_logged(runs: Path) -> None:
    script(
        """
import jax.numpy as jnp, epochal
run = epochal.init(name="crash")
for step in range(50):
    run.log({"loss": jnp.float32(step) * 2}, step=step)
raise RuntimeError("no power")
""",
        fails=True,
    )
    (folder,) = run_folders(runs)
    assert status(folder) == "failed"
    assert len(points(folder, "loss")) == 50
