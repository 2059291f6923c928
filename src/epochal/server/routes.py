"""Every address of the server, on one screen; ``spec/wire.md`` says what each answers."""

from __future__ import annotations

from starlette.routing import Mount, Route

from epochal.server import downloads, entries, epochs, handlers, marks, prometheus, stream


def routes() -> list[Route | Mount]:
    """The table of addresses."""
    return [
        Route("/", handlers.page),
        Route("/healthz", handlers.health),
        Route("/metrics", prometheus.metrics),
        Route("/api/runs", handlers.runs),
        Route("/api/series", handlers.series),
        Route("/api/events", stream.events),
        Route("/api/runs/{run_id}", handlers.run),
        Route("/api/runs/{run_id}/config", handlers.config),
        Route("/api/runs/{run_id}/labels", handlers.change_labels, methods=["PATCH"]),
        Route("/api/runs/{run_id}/histograms", entries.histograms),
        Route("/api/runs/{run_id}/texts", entries.texts),
        Route("/api/runs/{run_id}/findings", entries.findings),
        Route("/api/runs/{run_id}/graph", entries.graph),
        Route("/api/runs/{run_id}/log", entries.log),
        Route("/api/runs/{run_id}/experts", entries.experts),
        Route("/api/runs/{run_id}/phases", entries.phases),
        Route("/api/runs/{run_id}/timeline", entries.timeline),
        Route("/api/runs/{run_id}/marks", marks.marks),
        Route("/api/runs/{run_id}/records", entries.records),
        Route("/api/runs/{run_id}/blobs", entries.blobs),
        Route("/api/runs/{run_id}/blob/{file}", downloads.blob),
        Route("/api/runs/{run_id}/export", downloads.export),
        # Addresses of the first dashboard.
        Route("/events", epochs.events),
        Route("/api/history", epochs.history),
        Route("/graph.svg", downloads.graph_svg),
    ]
