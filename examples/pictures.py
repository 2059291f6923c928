"""Log pictures, with boxes and masks drawn over them.

Run it with ``python examples/pictures.py``, then open ``epochal serve`` and its section Samples.
"""

import numpy as np
from PIL import Image as PillowImage

import epochal


def scene(step: int) -> np.ndarray:
    """A dark picture with a bright square that moves to the right."""
    picture = np.full((96, 128, 3), 30, dtype=np.uint8)
    picture[30:60, 10 + 10 * step : 40 + 10 * step] = (230, 160, 40)
    return picture


with epochal.init("samples", "pictures") as run:
    for step in range(5):
        picture = scene(step)
        left = 10 + 10 * step
        run.log(
            {
                # A PIL image is recognised as it is.
                "input": PillowImage.fromarray(picture),
                # An array needs `epochal.Image`: a bare array is logged as a histogram.
                "prediction": epochal.Image(
                    picture,
                    caption="a square that moves",
                    # Left, top, right and bottom in pixels. Numbers from 0 to 1 work as well.
                    boxes=[{"box": (left, 30, left + 30, 60), "label": "square", "score": 0.9}],
                    # One class number per pixel.
                    masks={
                        "segmentation": {
                            "mask": (picture[..., 0] > 100).astype(np.uint8),
                            "labels": {1: "square"},
                        }
                    },
                ),
                # Several pictures under one name.
                "batch": [epochal.Image(np.roll(picture, 20 * i, axis=1)) for i in range(3)],
            },
            step=step,
        )
