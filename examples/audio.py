"""Log sounds, which you can play on the page.

Run it with ``python examples/audio.py``, then open ``epochal serve`` and its section Samples.
"""

import numpy as np

import epochal

RATE = 16_000
seconds = np.arange(RATE) / RATE

with epochal.init("samples", "audio") as run:
    for step, pitch in enumerate((220, 330, 440)):
        tone = 0.3 * np.sin(2 * np.pi * pitch * seconds)
        # Floats from -1 to 1, or integers. A path to a WAV, MP3, Ogg or FLAC file works as well.
        run.log({"tone": epochal.Audio(tone, RATE, caption=f"{pitch} Hz")}, step=step)
