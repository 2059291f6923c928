"""Log Markdown, HTML and plain text.

Run it with ``python examples/reports.py``, then open ``epochal serve`` and its section Samples.
"""

import epochal

with epochal.init("samples", "reports") as run:
    for epoch in range(3):
        report = f"""
## Epoch {epoch}

| split | accuracy |
|---|---:|
| train | {0.70 + 0.1 * epoch:.2f} |
| test | {0.65 + 0.1 * epoch:.2f} |
"""
        run.log(
            {
                "report": epochal.Markdown(report),
                # HTML is shown in a frame without scripts and without network.
                "page": epochal.Html(f"<h1>Epoch {epoch}</h1><p>Everything is fine.</p>"),
                # A text stays a text.
                "sample": "Once upon a time " + "there was a model " * epoch,
            },
            step=epoch,
        )
