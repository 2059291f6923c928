from __future__ import annotations

from pathlib import Path
from typing import TextIO

from epochal.server.state import ExportFormat
from epochal.store.store import RunView
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


def test_a_drawing_has_no_origin(tmp_path: Path, server: Server) -> None:
    with_blob(tmp_path, "image/svg+xml", b"<svg><script>alert(1)</script></svg>")
    headers = server.ask("/api/runs/id-x/blob/d1.bin").headers
    assert "sandbox" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]


def test_a_blob_whose_file_is_gone_is_a_sentence(tmp_path: Path, server: Server) -> None:
    journal = with_blob(tmp_path, "image/png", PNG)
    (journal.folder.blobs / "d1.bin").unlink()
    assert server.ask("/api/runs/id-x/blob/d1.bin").status == 404


def test_the_newest_picture_of_the_model(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add({"log": "graph", "name": "net", "svg": "<svg>1</svg>"})
    journal.add({"log": "graph", "name": "net", "svg": "<svg>2</svg>"})
    answer = server.ask("/graph.svg", run="id-x")
    assert (answer.body, answer.headers["content-type"]) == (b"<svg>2</svg>", "image/svg+xml")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_run_without_a_picture_says_so(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    assert "watch(model)" in server.ask("/graph.svg").json["error"]


def test_a_run_is_exported_by_what_was_passed_in(tmp_path: Path) -> None:
    def write(run: RunView, out: TextIO) -> None:
        out.write(f"{run.info.name}: ä\r\n" * 100_000)

    Journal(tmp_path).metrics(1, loss=1.0)
    exports = {"txt": ExportFormat("txt", "text/plain", write)}
    with serving(tmp_path, exports=exports) as server:
        answer = server.ask("/api/runs/id-x/export", format="txt")
        assert answer.body == "x: ä\r\n".encode() * 100_000
        disposition = answer.headers["content-disposition"]
        assert disposition == "attachment; filename=\"x.txt\"; filename*=UTF-8''x.txt"
        assert server.ask("/api/runs/id-x").json["exports"] == ["txt"]
        assert server.ask("/api/runs/id-x/export", format="exe").status == 400
        assert server.ask("/api/runs/nobody/export", format="txt").status == 404


def test_a_file_name_cannot_break_out_of_its_header(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    journal.folder.labels.write_text('{"name": "a\\"\\r\\nX: y/../ü"}', encoding="utf-8")
    exports = {"txt": ExportFormat("txt", "text/plain", lambda run, out: None)}
    with serving(tmp_path, exports=exports) as server:
        headers = server.ask("/api/runs/id-x/export", format="txt").headers
    assert "x" not in headers
    assert headers["content-disposition"].startswith('attachment; filename="a_X_y_.._')
