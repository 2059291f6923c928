"""The frame in which the page draws figures of Plotly, with the package that the user installed.

The frame has no origin and may load nothing: the page sends it the figure as a message.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from epochal.page.loader import Page
from epochal.server.responses import body_response, error_response

_FRAME = Path(__file__).with_name("plotly.html")
# Plotly compiles what it draws with WebGL.
_POLICY = (
    "default-src 'none'; script-src {scripts} 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'self'; sandbox allow-scripts"
)
_NOT_INSTALLED = (
    "This figure needs Plotly on the machine that serves the page: run `pip install plotly` there,"
    " and load the page again."
)


async def plotly(request: Request) -> Response:
    """``/api/plotly``: a frame that draws the figure it is sent."""
    library = _installed()
    if library is None:
        return error_response(404, _NOT_INSTALLED)
    page = _frame(library)
    scripts = " ".join(f"'{one}'" for one in page.script_hashes)
    return await body_response(
        request,
        page.html,
        media_type="text/html; charset=utf-8",
        tag=page.tag,
        headers={"content-security-policy": _POLICY.format(scripts=scripts)},
        compress=lambda: page.compressed,
    )


@cache
def _frame(library: Path) -> Page:
    page = _FRAME.read_bytes().replace(b"$library", library.read_bytes(), 1)
    return Page(page, is_built=True)


def _installed() -> Path | None:
    spec = find_spec("plotly")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [Path(folder) / "package_data" / "plotly.min.js" for folder in folders]
    return next(filter(Path.is_file, files), None)
