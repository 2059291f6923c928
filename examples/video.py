"""Log videos, for example episodes of an agent.

Run it with ``python examples/video.py``, then open ``epochal serve`` and its section Samples.
"""

import numpy as np

import epochal


def episode(speed: int) -> np.ndarray:
    """A ball that falls, as an array of time × height × width × channels."""
    frames = np.zeros((16, 64, 64, 3), dtype=np.uint8)
    for time, frame in enumerate(frames):
        top = min(56, time * speed)
        frame[top : top + 8, 28:36] = (80, 200, 120)
    return frames


with epochal.init("samples", "video") as run:
    for step in range(3):
        # A path to an MP4 or WebM file works as well.
        run.log({"episode": epochal.Video(episode(step + 1), fps=8)}, step=step)
