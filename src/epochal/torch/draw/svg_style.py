"""The colours of a picture; a page around it can set the variables itself."""

from __future__ import annotations

_LIGHT = {
    "ground": "#ffffff",
    "ink": "#1b1f27",
    "dim": "#667085",
    "line": "#475467",
    "module": "#eef2f7",
    "module-line": "#98a2b3",
    "activation": "#e7f6ec",
    "activation-line": "#6cbf8b",
    "norm": "#fdf3e1",
    "norm-line": "#e0ac55",
    "merge": "#ffffff",
    "merge-line": "#475467",
    "loop": "#f1ecfd",
    "loop-line": "#9d83e0",
    "choice": "#fdecf3",
    "choice-line": "#dd82aa",
    "port": "#e4eefc",
    "port-line": "#6f9ee8",
    "reference": "#2f6fde",
    "state": "#d9730d",
    "level": "#c3cad5",
}
_DARK = {
    "ground": "#14171d",
    "ink": "#e6e9ef",
    "dim": "#98a1b0",
    "line": "#8a94a6",
    "module": "#232833",
    "module-line": "#515b6d",
    "activation": "#173226",
    "activation-line": "#3f8b62",
    "norm": "#362b17",
    "norm-line": "#93702f",
    "merge": "#14171d",
    "merge-line": "#8a94a6",
    "loop": "#2a2342",
    "loop-line": "#7a65b8",
    "choice": "#3a2030",
    "choice-line": "#a55680",
    "port": "#1b2c49",
    "port-line": "#4a78c2",
    "reference": "#6ba2ff",
    "state": "#f0a04b",
    "level": "#3b4351",
}
_FAMILY = {
    "module": "module",
    "operation": "module",
    "graph": "loop",
    "loop": "loop",
    "activation": "activation",
    "norm": "norm",
    "merge": "merge",
    "map": "loop",
    "switch": "choice",
    "gate": "choice",
    "state": "choice",
    "input": "port",
    "output": "port",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--ep-{name}:{colour};" for name, colour in colours.items())


STYLE = (
    f".epochal-graph{{{_variables(_LIGHT)}"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    f"@media(prefers-color-scheme:dark){{.epochal-graph{{{_variables(_DARK)}}}}}"
    ".epochal-graph text{font-size:12px;fill:var(--ep-ink);text-anchor:middle}"
    ".epochal-graph .ground{fill:var(--ep-ground)}"
    ".epochal-graph .head{font-size:14px;font-weight:600;text-anchor:start}"
    ".epochal-graph .sub,.epochal-graph .legend{font-size:11px;fill:var(--ep-dim);"
    "text-anchor:start}"
    ".epochal-graph .name{font-weight:600}"
    ".epochal-graph .tag{font-size:10.5px;fill:var(--ep-reference)}"
    ".epochal-graph .count,.epochal-graph .time{font-size:10.5px;fill:var(--ep-dim)}"
    ".epochal-graph .shape{stroke-width:1.2}"
    ".epochal-graph .edge{fill:none;stroke:var(--ep-line);stroke-width:1.2}"
    ".epochal-graph .edge.reference{stroke:var(--ep-reference);stroke-dasharray:5 3}"
    ".epochal-graph .edge.state{stroke:var(--ep-state);stroke-dasharray:1.5 3;stroke-width:1.6}"
    ".epochal-graph .tip path{fill:var(--ep-line)}"
    ".epochal-graph .tip.reference path{fill:var(--ep-reference)}"
    ".epochal-graph .tip.state path{fill:var(--ep-state)}"
    ".epochal-graph .edge-label,.epochal-graph .level-label{font-size:10px;text-anchor:start;"
    "paint-order:stroke;stroke:var(--ep-ground);stroke-width:3px;stroke-linejoin:round}"
    ".epochal-graph .edge-label.reference{fill:var(--ep-reference)}"
    ".epochal-graph .edge-label.state{fill:var(--ep-state)}"
    ".epochal-graph .level{fill:none;stroke:var(--ep-level);stroke-dasharray:4 4}"
    ".epochal-graph .level-label{fill:var(--ep-dim)}"
    ".epochal-graph .timed text{fill:#10131a}"
    + "".join(
        f".epochal-graph .{kind} .shape{{fill:var(--ep-{family});stroke:var(--ep-{family}-line)}}"
        for kind, family in _FAMILY.items()
    )
)
