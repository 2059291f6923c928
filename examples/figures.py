"""Log figures of Matplotlib and Plotly.

Run it with ``python examples/figures.py``, then open ``epochal serve`` and its section Samples.
"""

import matplotlib

matplotlib.use("Agg")  # draw without a window

import matplotlib.pyplot as plt
import numpy as np

import epochal

try:
    import plotly.graph_objects as plotly
except ModuleNotFoundError:
    plotly = None

x = np.linspace(0, 6, 50)

with epochal.init("samples", "figures") as run:
    for step in range(3):
        figure, axes = plt.subplots()
        axes.plot(x, np.sin(x + step))
        axes.set_title(f"prediction at step {step}")
        # The figure is drawn in this call, which takes tens of milliseconds. Do it every so often.
        run.log({"prediction": figure}, step=step)
        plt.close(figure)

        if plotly is not None:  # the page draws it with your installed package
            run.log({"interactive": plotly.Figure(plotly.Scatter(x=x, y=np.cos(x)))}, step=step)
