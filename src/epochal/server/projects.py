"""The overview of projects."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from epochal.server.responses import json_response
from epochal.server.state import server_state
from epochal.store.projects import ProjectList


async def projects(request: Request) -> Response:
    """``/api/projects``: every project in one row."""
    state = server_state(request)
    catalog = state.reader.catalog

    def query() -> ProjectList:
        catalog.refresh_list(is_followed=state.broadcaster.num_streams > 0)
        return catalog.projects()

    return await json_response(request, await state.reader.query(query))
