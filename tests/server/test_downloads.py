from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import pytest

from epochal.journal.blobs import Pixels, store_pixels
from epochal.store.run import RunView
from tests.server.live import Server, serving
from tests.store.journals import Journal

PNG = b"\x89PNG\r\n\x1a\n"


def with_blob(root: Path, media_type: str, content: bytes) -> Journal:
    journal = Journal(root)
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "d1.bin").write_bytes(content)
    journal.add({"log": "blob", "step": 1, "name": "a", "file": "d1.bin", "media_type": media_type})
    return journal


def test_a_picture_is_shown(tmp_path: Path, server: Server) -> None:
    with_blob(tmp_path, "image/png", PNG)
    answer = server.ask("/api/runs/id-x/blob/d1.bin")
    assert (answer.body, answer.headers["content-type"]) == (PNG, "image/png")


def test_a_blob_that_could_run_is_a_download(tmp_path: Path, server: Server) -> None:
    with_blob(tmp_path, "application/xhtml+xml", b"<script>alert(1)</script>")
    headers = server.ask("/api/runs/id-x/blob/d1.bin").headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment")
    assert "sandbox" in headers["content-security-policy"]


def test_a_page_is_shown_and_can_run_and_load_nothing(tmp_path: Path, server: Server) -> None:
    with_blob(tmp_path, "text/html", b"<script>alert(1)</script>")
    headers = server.ask("/api/runs/id-x/blob/d1.bin").headers
    assert headers["content-type"].startswith("text/html")
    policy = headers["content-security-policy"].split("; ")
    assert {"sandbox", "default-src 'none'", "img-src data:"} <= set(policy)
    assert not any("allow-scripts" in one or "script-src" in one for one in policy)
    assert headers["connection-allowlist"] == "()"


def test_a_drawing_has_no_origin(tmp_path: Path, server: Server) -> None:
    with_blob(tmp_path, "image/svg+xml", b"<svg><script>alert(1)</script></svg>")
    headers = server.ask("/api/runs/id-x/blob/d1.bin").headers
    assert "sandbox" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]


def test_a_blob_whose_file_is_gone_is_a_sentence(tmp_path: Path, server: Server) -> None:
    journal = with_blob(tmp_path, "image/png", PNG)
    (journal.folder.blobs / "d1.bin").unlink()
    assert server.ask("/api/runs/id-x/blob/d1.bin").status == 404


def test_every_file_of_a_record_is_served(tmp_path: Path, server: Server) -> None:
    journal = with_blob(tmp_path, "application/vnd.epochal.table+json", b'{"columns": []}')
    for file in ("cell.png", "mask.png", "weights.pt"):
        (journal.folder.blobs / file).write_bytes(PNG)
    masks = [{"group": "g", "file": "mask.png"}]
    journal.add({"log": "blob", "step": 1, "name": "b", "files": ["cell.png"], "masks": masks})
    journal.add({"log": "file", "step": 1, "name": "best/weights.pt", "file": "weights.pt"})
    for file in ("cell.png", "mask.png"):
        answer = server.ask(f"/api/runs/id-x/blob/{file}")
        assert (answer.body, answer.headers["content-type"]) == (PNG, "image/png")
    headers = server.ask("/api/runs/id-x/blob/weights.pt").headers
    assert headers["content-disposition"].endswith("UTF-8''best%2Fweights.pt")


def test_pixels_are_encoded_once_when_they_are_asked_for(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path)
    file = store_pixels(journal.folder, Pixels(bytes(12), 2, 2, 3))
    journal.add({"log": "blob", "step": 1, "name": "a", "file": file, "media_type": "image/png"})
    assert server.ask(f"/api/runs/id-x/blob/{file}").body.startswith(PNG)
    (journal.folder.blobs / f"{file}.raw").unlink()
    assert server.ask(f"/api/runs/id-x/blob/{file}").body.startswith(PNG)
    (journal.folder.blobs / "d2.png.raw").write_bytes(b"no pixels")
    journal.add({"log": "blob", "step": 1, "name": "b", "file": "d2.png"})
    answer = server.ask("/api/runs/id-x/blob/d2.png")
    assert (answer.status, "cannot be encoded" in answer.json["error"]) == (404, True)


@pytest.mark.parametrize(
    ("asked", "status", "part", "range_"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=7-99", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=5-4", 416, None, "bytes */10"),
        ("bytes=-", 200, b"0123456789", None),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
    ],
)
def test_a_player_may_ask_for_a_part(
    tmp_path: Path, server: Server, asked: str, status: int, part: bytes | None, range_: str | None
) -> None:
    with_blob(tmp_path, "audio/wav", b"0123456789")
    answer = server.ask("/api/runs/id-x/blob/d1.bin", headers={"range": asked})
    assert (answer.status, answer.headers.get("content-range")) == (status, range_)
    assert part is None or answer.body == part


def test_a_large_file_is_sent_in_pieces(tmp_path: Path, server: Server) -> None:
    content = bytes(range(256)) * 5000
    with_blob(tmp_path, "video/mp4", content)
    answer = server.ask("/api/runs/id-x/blob/d1.bin")
    assert (answer.body, answer.headers["content-type"]) == (content, "video/mp4")
    tag = answer.headers["etag"]
    again = {"if-none-match": tag}
    assert server.ask("/api/runs/id-x/blob/d1.bin", headers=again).status == 304
    for known, status in ((tag, 206), ('"other"', 200)):
        part = {"range": "bytes=0-3", "if-range": known}
        assert server.ask("/api/runs/id-x/blob/d1.bin", headers=part).status == status


def test_the_frame_of_plotly_runs_the_installed_package_and_loads_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "plotly", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [one for one in sys.path if not Path(one, "plotly").is_dir()])
        assert "pip install plotly" in server.ask("/api/plotly").json["error"]
    library = tmp_path / "site" / "plotly" / "package_data" / "plotly.min.js"
    library.parent.mkdir(parents=True)
    library.write_text("window.Plotly = {}")
    (tmp_path / "site" / "plotly" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    answer = server.ask("/api/plotly")
    assert b"window.Plotly = {}" in answer.body
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "sandbox allow-scripts"} <= set(policy)
    assert "frame-ancestors 'self'" in policy


def test_the_newest_picture_of_the_model(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add({"log": "graph", "name": "net", "svg": "<svg>1</svg>"})
    journal.add({"log": "graph", "name": "net", "svg": "<svg>2</svg>"})
    answer = server.ask("/graph.svg", run="id-x")
    assert (answer.body, answer.headers["content-type"]) == (b"<svg>2</svg>", "image/svg+xml")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_run_without_a_picture_says_so(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    assert "watch(model)" in server.ask("/graph.svg").json["error"]


def test_a_run_is_saved_by_what_was_passed_in(tmp_path: Path) -> None:
    def write(runs: Sequence[RunView], out: TextIO, *_: object) -> None:
        out.write(f"{runs[0].info.name}: ä\r\n" * 100_000)

    Journal(tmp_path).metrics(1, loss=1.0)
    with serving(tmp_path, write_archive=write) as server:
        answer = server.ask("/api/export", run="id-x")
        assert answer.body == "x: ä\r\n".encode() * 100_000
        disposition = answer.headers["content-disposition"]
        assert disposition == "attachment; filename=\"x.html\"; filename*=UTF-8''x.html"
        assert server.ask("/api/export", run="nobody").status == 404


def test_a_file_name_cannot_break_out_of_its_header(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    journal.folder.labels.write_text('{"name": "a\\"\\r\\nX: y/../ü"}', encoding="utf-8")
    with serving(tmp_path, write_archive=lambda *_: None) as server:
        headers = server.ask("/api/export", run="id-x").headers
    assert "x" not in headers
    assert headers["content-disposition"].startswith('attachment; filename="a_X_y_.._')
