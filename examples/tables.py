"""Log tables: rows of predictions with pictures in their cells, and a confusion matrix.

Run it with ``python examples/tables.py``, then open ``epochal serve`` and its section Samples.
"""

import numpy as np

import epochal

CLASSES = ["cat", "dog", "bird"]
rng = np.random.default_rng(0)

with epochal.init("samples", "tables") as run:
    for epoch in range(3):
        truth = rng.integers(3, size=20)
        is_right = rng.random(20) < 0.5 + 0.2 * epoch
        guess = np.where(is_right, truth, rng.integers(3, size=20))

        # A list of dicts is a table. So is a pandas or polars data frame.
        predictions = [
            {
                "picture": epochal.Image(rng.random((48, 48, 3))),
                "truth": CLASSES[truth[i]],
                "guess": CLASSES[guess[i]],
                "right": bool(truth[i] == guess[i]),
            }
            for i in range(8)
        ]

        # `chart` tells the page how to draw a table.
        matrix = epochal.Table(
            [
                {"truth": a, "guess": b, "count": int(((truth == i) & (guess == j)).sum())}
                for i, a in enumerate(CLASSES)
                for j, b in enumerate(CLASSES)
            ],
            chart={"kind": "matrix", "x": "guess", "y": "truth", "value": "count"},
        )
        run.log({"predictions": predictions, "confusion": matrix}, step=epoch)
