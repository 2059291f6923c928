from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from epochal.server.prometheus import metric_name
from tests.server.live import Server
from tests.store.journals import Journal

LINE = re.compile(
    r'^[a-zA-Z_:][a-zA-Z0-9_:]*\{(\w+="(\\.|[^"\\\n])*",?)+\} (NaN|[+-]Inf|[-+\w.]+)$'
)


def test_latest_values_of_live_runs(tmp_path: Path, server: Server) -> None:
    logged = {"loss": 1.5, "val/acc %": math.nan}
    Journal(tmp_path).metrics(1, loss=2.0).add({"log": "metrics", "step": 2, "m": logged})
    Journal(tmp_path, "ended").metrics(1, loss=9.0).finish()
    lines = server.ask("/metrics").body.decode().splitlines()
    about = 'run="id-x",name="x",project="p"'
    assert f'epochal_loss{{{about},rank="0",metric="loss",axis="step"}} 1.5' in lines
    assert f'epochal_val_acc__{{{about},rank="0",metric="val/acc %",axis="step"}} NaN' in lines
    assert f"epochal_run_step{{{about}}} 2.0" in lines
    assert not [line for line in lines if "ended" in line]


def test_every_line_is_in_the_format(tmp_path: Path, server: Server) -> None:
    logged = {'a"b\\c\nd': 1.0, "ü": math.inf, "0": -math.inf, "a_b": 1e-300}
    Journal(tmp_path).add({"log": "metrics", "step": 1, "m": logged})
    for line in server.ask("/metrics").body.decode().splitlines():
        assert line.startswith("# TYPE ") or LINE.match(line), line


def test_each_family_is_declared_once(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).add({"log": "metrics", "step": 1, "m": {"a/b": 1.0, "a_b": 2.0}})
    lines = server.ask("/metrics").body.decode().splitlines()
    assert lines.count("# TYPE epochal_a_b gauge") == 1
    assert len([line for line in lines if line.startswith("epochal_a_b{")]) == 2


def test_names_are_made_safe() -> None:
    assert metric_name("train/loss (ema)") == "epochal_train_loss__ema_"


def test_findings_that_hold_are_counted_by_severity(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    for number, severity, state in ((1, "error", "open"), (2, "warning", "open")):
        journal.add(finding(number, severity, state), writer="findings")
    before = counted(server)
    journal.add(finding(1, "error", "closed"), writer="findings")
    assert before == {"error": "1.0", "warning": "1.0"}
    assert counted(server) == {"error": "0.0", "warning": "1.0"}


def test_where_nobody_looks_for_findings_none_are_counted(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    assert counted(server) == {}


def finding(number: int, severity: str, state: str) -> dict[str, Any]:
    told = {"sentence": "s", "advice": "a", "evidence": {}, "state": state, "severity": severity}
    return {"log": "finding", "id": f"{number:012x}", "rule": "plateau", **told}


def counted(server: Server) -> dict[str, str]:
    """The gauges of findings: severity and value."""
    lines = server.ask("/metrics").body.decode().splitlines()
    about = r'run="id-x",name="x",project="p"'
    form = re.compile(rf'^epochal_run_findings\{{{about},severity="(\w+)"\}} (.+)$')
    return {found[1]: found[2] for line in lines if (found := form.match(line))}
