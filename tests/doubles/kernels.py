"""A real notebook kernel and the cells that are run in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

WAIT_S = 120.0


class Output(NamedTuple):
    """What a cell shows: states of each display by its id, printed text, its last expression."""

    displays: dict[str, list[str]]
    text: str
    result: dict[str, str]


class Kernel:
    """A kernel of this Python; ``close`` ends it."""

    def __init__(self) -> None:
        manager = pytest.importorskip(
            "jupyter_client.manager", reason="jupyter_client is not installed"
        )
        pytest.importorskip("ipykernel", reason="ipykernel is not installed")
        self.manager: Any = manager.KernelManager(kernel_name="python3")
        self.manager.start_kernel()
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WAIT_S)

    def run(self, code: str, *, cell_id: str | None = None) -> dict[str, str]:
        """Run a cell; the forms in which its last expression shows itself."""
        return self.execute(code, cell_id=cell_id).result

    def execute(self, code: str, *, cell_id: str | None = None, fails: bool = False) -> Output:
        """Run a cell that ends well, or that ``fails``.

        ``cell_id`` is what JupyterLab sends along with a cell's code; other clients send none.
        """
        displays: dict[str, list[str]] = {}
        texts: list[str] = []
        result: dict[str, str] = {}

        def note(message: dict[str, Any]) -> None:
            kind, content = message["msg_type"], message["content"]
            if kind == "execute_result":
                result.update(content["data"])
            elif kind in ("display_data", "update_display_data"):
                key = content["transient"]["display_id"]
                displays.setdefault(key, []).append(content["data"]["text/html"])
            elif kind == "stream":
                texts.append(content["text"])

        if cell_id is not None:
            create = self.client.session.msg

            def with_cell_id(kind: str, *args: Any, **facts: Any) -> Any:
                return create(kind, *args, **{**facts, "metadata": {"cellId": cell_id}})

            self.client.session.msg = with_cell_id
        try:
            answer = self.client.execute_interactive(code, timeout=WAIT_S, output_hook=note)
        finally:
            if cell_id is not None:
                self.client.session.msg = create
        assert answer["content"]["status"] == ("error" if fails else "ok"), answer["content"]
        return Output(displays, "".join(texts), result)

    def restart(self) -> None:
        """As the menu of a notebook does it: the kernel is asked to go, and then started anew."""
        # Asked only: whether it goes without being killed is what is to be seen.
        self.manager.shutdown_wait_time = WAIT_S
        self.manager.restart_kernel()
        self.client.stop_channels()
        self._connect()

    def close(self) -> None:
        """End it."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
