"""One of everything that is not a number: pictures, sound, video, figures, texts and files.

    python examples/samples.py

Then open the page and its section Samples. Tables and a confusion matrix are in `cnn.py`:

    epochal serve
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draw without a window

import matplotlib.pyplot as plt
import numpy as np

import epochal

RATE = 16_000
seconds = np.arange(RATE) / RATE

with epochal.init("examples", "samples") as run:
    for step in range(5):
        left = 10 + 10 * step
        picture = np.full((96, 128, 3), 30, dtype=np.uint8)
        picture[30:60, left : left + 30] = (230, 160, 40)
        scene = epochal.Image(  # a PIL image can be logged as it is, without `epochal.Image`
            picture,
            caption="a square that moves",
            # Left, top, right and bottom in pixels. Numbers from 0 to 1 work as well.
            boxes=[{"box": (left, 30, left + 30, 60), "label": "square", "score": 0.9}],
            # One class number for each pixel.
            masks={"segments": {"mask": picture[..., 0] // 100, "labels": {2: "square"}}},
        )
        several = [epochal.Image(np.roll(picture, 20 * i, axis=1)) for i in range(3)]

        tone = 0.3 * np.sin(2 * np.pi * 220 * (step + 1) * seconds)
        frames = np.zeros((16, 64, 64, 3), dtype=np.uint8)  # time, height, width, channels
        for time, frame in enumerate(frames):
            frame[min(56, time * (step + 1)) :][:8, 28:36] = (80, 200, 120)

        figure, axes = plt.subplots()
        axes.plot(np.sin(seconds[::100] * 6 + step))
        plt.close(figure)

        run.log(
            {
                "scene": scene,
                "batch": several,
                "tone": epochal.Audio(tone, RATE),  # or the path of a WAV, MP3, Ogg or FLAC file
                "episode": epochal.Video(frames, fps=8),  # or the path of an MP4 or WebM file
                "prediction": figure,  # Matplotlib or Plotly; takes tens of milliseconds
                "story": "Once upon a time " + "there was a model " * step,
                "report": epochal.Markdown(f"## Step {step}\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
                # HTML is shown in a frame without scripts and without network.
                "page": epochal.Html(f"<h1>Step {step}</h1><p>Everything is fine.</p>"),
                "weights": np.random.default_rng(step).normal(size=1000),  # a histogram
            },
            step=step,
        )

    vocabulary = Path(run.dir, "vocabulary.json")
    vocabulary.write_text(json.dumps({"the": 0, "a": 1, "model": 2}))
    run.log_file(vocabulary, name="tokenizer/vocabulary.json")  # a copy, for download on the page
