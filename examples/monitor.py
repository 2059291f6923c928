"""Count epochs instead of steps: `Monitor` prints a line for each, with the time that is left.

    python examples/monitor.py

The run is also written as one HTML file, which you can open without a server. Then see:

    epochal show
    epochal watch
"""

import os
import time

import numpy as np

import epochal

EPOCHS = int(os.environ.get("EPOCHS", "30"))

# Points on a noisy parabola, and a small network in numpy that fits them.
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (512, 1))
y = x**2 + 0.02 * rng.normal(size=x.shape)
inner, bias, outer = rng.normal(size=(1, 32)), rng.normal(size=32), np.zeros((32, 1))

with epochal.Monitor(EPOCHS, name="monitor", project="examples", config={"lr": 0.05}) as monitor:
    monitor.save_html("runs/monitor.html")  # written when the training ends, however it ends
    for epoch in range(EPOCHS):
        began = time.perf_counter()
        errors = []
        for batch in np.array_split(rng.permutation(512), 16):
            hidden = np.tanh(x[batch] @ inner + bias)
            error = hidden @ outer - y[batch]
            back = error @ outer.T * (1 - hidden**2)
            outer -= 0.05 * hidden.T @ error / len(batch)
            inner -= 0.05 * x[batch].T @ back / len(batch)
            bias -= 0.05 * back.mean(axis=0)
            errors.append(float((error**2).mean()))
        # The epoch, the seconds it took, and its metrics.
        monitor.log(epoch, time.perf_counter() - began, {"loss": np.mean(errors)})

# The epochs are also there as Python objects.
best = min(monitor.history(), key=lambda record: record.metrics["loss"])
print(f"The best epoch is {best.epoch} with a loss of {best.metrics['loss']:.5f}.")
