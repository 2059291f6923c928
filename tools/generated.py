"""The parts of pages that the program says about itself.

    python -m tools.generated            write them into the pages
    python -m tools.generated --check    name the pages in which they are stale

A part stands between the lines ``<!-- generated: NAME … -->`` and ``<!-- end -->`` of a page.
``PARTS`` has the parts by name; words after the name are arguments.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from epochal.cli.command import Command, Group
from epochal.cli.main import program
from epochal.exchange.sinks.registry import own_sinks
from epochal.exchange.sinks.sink import Sink, is_held
from epochal.health.registry import RULES
from epochal.health.rule import GROUPS, Rule, declared
from epochal.journal.blobs import PLOTLY, TABLE
from epochal.records import KINDS, ROLE_GUESSES, Field, Kind
from epochal.records.kinds.events import EVENTS
from epochal.server import endpoints
from epochal.server.endpoints import Endpoint
from epochal.server.entries import EntrySource
from epochal.server.params import Param
from epochal.settings import DECLARED, RUN_OPTIONS, Setting
from tools.docstrings import python_names
from tools.wire import response_type

ROOT = Path(__file__).resolve().parent.parent
PANELS = ROOT / "web" / "src" / "panels"
_MARK = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)
_PART = re.compile(r"^<!-- generated: ([^\n]+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def table(*rows: Sequence[str]) -> Iterator[str]:
    """A table; the first row has the headings."""
    head, *body = rows
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    yield from (f"| {' | '.join(row)} |" for row in body)


# -- commands ------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """The help of every command; options that all have stand in the first."""
    yield f"```text\n{help_of(program, 'epochal', is_whole=True)}\n```\n"
    yield from _commands(program, "epochal")


def _commands(group: Group, path: str) -> Iterator[str]:
    with click.Context(group, info_name=path) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"## {path} {name}\n\n```text\n{help_of(command, f'{path} {name}')}\n```\n"
            if isinstance(command, Group):
                yield from _commands(command, f"{path} {name}")


def help_of(command: click.Command, path: str, *, is_whole: bool = False) -> str:
    """The help of a command; only the first has the options of all commands."""
    shared = {"help", *(parameter.name for parameter in Command("any").params)}
    params, command.params = command.params, []
    command.params = [one for one in params if is_whole or one.name not in shared]
    command.add_help_option = is_whole
    try:
        context = command.make_context(
            path, [], resilient_parsing=True, terminal_width=88, max_content_width=88
        )
        return command.get_help(context).rstrip()
    finally:
        command.params, command.add_help_option = params, True


# -- findings ------------------------------------------------------------------------------------


def rules() -> Iterator[str]:
    """A section for each rule, by group."""
    for group in GROUPS:
        yield f"## {group.capitalize()}\n"
        for rule in RULES:
            if rule.group == group:
                yield section(rule)


def section(rule: type[Rule]) -> str:
    """One rule: what it says and what to do; its meaning; when it reports, folded."""
    advice = list(_advice(rule))
    headline = next((when for when, _ in advice), rule.meaning)
    lines = [f"### `{rule.name}`", ""]
    lines += [f"**{headline}** → {then}\n" for _, then in advice[:1]]
    lines += [] if headline == rule.meaning and advice else [rule.meaning, ""]
    lines += ["<details><summary>When it reports, and its thresholds</summary>"]
    lines += ["<ul>", *(f"<li>{_html(line)}</li>" for line in _details(rule)), "</ul>"]
    if advice[1:]:
        lines += ["<p>Depending on the evidence, it also says:</p>", "<ul>"]
        for when, then in advice[1:]:
            heading = "" if when == headline else f"<b>{_html(when)}</b> → "
            lines += [f"<li>{heading}{_html(then)}</li>"]
        lines += ["</ul>"]
    return "\n".join([*lines, "</details>", ""])


def _advice(rule: type[Rule]) -> Iterator[tuple[str, str]]:
    """What a rule says and what to do, each advice once; … stands for evidence.

    Where a sentence is nearly all evidence, the meaning of the rule replaces it, and the last
    message, which is the most general one, comes first.
    """
    known: set[str] = set()
    messages = list(rule.messages.values())
    if messages and _is_evidence(messages[0].sentence):
        messages = messages[-1:] + messages[:-1]
    for message in messages:
        then = _without_evidence(message.advice)
        if then not in known and not _is_evidence(then):
            known.add(then)
            is_vague = _is_evidence(message.sentence)
            yield rule.meaning if is_vague else _without_evidence(message.sentence), then


def _is_evidence(template: str) -> bool:
    text = _without_evidence(template)
    return text.startswith("…") and len(re.findall(r"\w+", text)) < 7


def _without_evidence(template: str) -> str:
    text = re.sub(r"\{[^}]*\}", "…", template)
    text = re.sub(r"…(?:[ ,]*…)+", "…", text)
    return re.sub(r"(\w)…(?=[.,:;])", r"\1", text)


def _families(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _details(rule: type[Rule]) -> Iterator[str]:
    yield f"**Healthy:** {rule.described(rule.healthy)}"
    for severity, when in rule.reports.items():
        yield f"**{severity.capitalize()}:** {rule.described(when)}"
    if rule.needs:
        yield f"**Needs:** {rule.needs}"
    if rule.only_in:
        yield f"**Families:** {_families(rule.only_in)}."
    elif rule.not_in:
        yield f"**Families:** all but {_families(rule.not_in)}."
    causes = [
        f"`{other.name}`"
        for other in RULES
        if other is not rule and not rule.symptom_of.isdisjoint(other.causes)
    ]
    if causes:
        yield f"**Not reported** while one of these is a warning or an error: {', '.join(causes)}."
    values = {"enabled": True, **declared(rule.Thresholds())}
    settings = (f"`{name} = {_toml(value)}`" for name, value in values.items() if value != ())
    yield f"**Settings** in `[rules.{rule.name}]`: {', '.join(settings)}."


def _html(text: str) -> str:
    """Markdown with code and bold words as HTML, for a place that is not parsed as Markdown."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)


def _toml(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


# -- settings ------------------------------------------------------------------------------------


def settings() -> Iterator[str]:
    """Every setting of a run, of a server and of the cache."""
    head = ("key", "variable", "keyword of `init`", "meaning", "values", "default")
    yield from table(head, *map(_setting, DECLARED))


def _setting(setting: Setting) -> Sequence[str]:
    return (
        f"`{setting.key}`" if setting.key else "–",
        f"`{setting.variable}`" if setting.variable else "–",
        f"`{setting.name}`" if setting.name in RUN_OPTIONS else "–",
        setting.meaning,
        setting.kind.accepts,
        _default(setting.default),
    )


def _default(value: Any) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


# -- sinks ---------------------------------------------------------------------------------------

# Rows of the table of what targets can hold; a row of several contents names those that are held.
CONTENTS = {
    "numbers of steps": ("metrics",),
    "telemetry": ("gpu",),
    "histograms": ("histogram",),
    "texts": ("text",),
    "images": tuple(
        f"blob:image/{name}" for name in ("png", "jpeg", "gif", "bmp", "webp", "svg+xml")
    ),
    "audio": tuple(f"blob:audio/{name}" for name in ("wav", "flac", "mpeg", "ogg")),
    "video": tuple(f"blob:video/{name}" for name in ("mp4", "webm", "ogg")),
    "HTML pages": ("blob:text/html",),
    "tables": (f"blob:{TABLE}",),
    "Plotly figures": (f"blob:{PLOTLY}",),
    "arrays (npy, npz)": ("file:application/x-npy",),
    "files of `run.log_file`": ("file:application/octet-stream",),
    "model graphs": ("graph",),
    "configuration": ("option",),
    "metric definitions": ("define",),
    "summary values": ("summary",),
    "alerts": ("event:alert",),
    "other events": ("event:checkpoint",),
    "messages": ("message",),
    "findings": ("finding",),
}


def sinks() -> Iterator[str]:
    """The sinks, what each can hold, and their options."""
    own = own_sinks().values()
    yield from table(
        ("name", "what it gets", "needs"),
        *((f"`{sink.name}`", sink.summary, _needs(sink)) for sink in own),
    )
    yield "\nWhat each target can hold:\n"
    yield from table(
        ("", *(f"`{sink.name}`" for sink in own)),
        *((name, *(_held(sink, content) for sink in own)) for name, content in CONTENTS.items()),
    )
    yield ""
    yield from table(("option", "meaning"), *(row for sink in own for row in _options(sink)))


def _options(sink: type[Sink]) -> Iterator[tuple[str, str]]:
    for one in fields(sink.options):
        start = f"; enables `{sink.name}`" if one.metadata.get("starts_sink") else ""
        yield f"`{one.name}`", f"{one.metadata.get('meaning', '')}{start}"


def _held(sink: type[Sink], contents: tuple[str, ...]) -> str:
    taken = [content for content in contents if is_held(sink.holds, content)]
    if not taken:
        return "–"
    formats = ", ".join(content.rpartition("/")[2].partition("+")[0] for content in taken)
    return "yes" if len(taken) == len(contents) else formats


def _needs(sink: type[Sink]) -> str:
    return "–" if sink.extra is None else f"`pip install 'epochal[{sink.extra}]'`"


# -- records -------------------------------------------------------------------------------------


def kinds() -> Iterator[str]:
    """Every kind of record."""
    rows = ((f"`{k.name}`", "–" if k.axis == "none" else k.axis, k.meaning) for k in KINDS.values())
    yield from table(("kind", "axis", "meaning"), *rows)


def record_fields() -> Iterator[str]:
    """Every field of every kind."""
    yield from table(("field", "type and unit", "series, and meaning"), *_field_rows())


def _field_rows() -> Iterator[Sequence[str]]:
    for kind in KINDS.values():
        for path, one in _paths(kind.fields):
            unit = f", {one.unit}" if one.unit else ""
            meaning = ": ".join(text for text in (_series(kind, one), _meaning(one)) if text)
            yield f"`{kind.name}.{path}`", one.type + unit, meaning
        for start, instead in kind.families.items():
            yield f"`{kind.name}.{start}<x>`", "number", f"`{instead}<x>`"


def events() -> Iterator[str]:
    """Epochal's own events."""
    rows = ((f"`{e.name}`", e.writer, _facts(e.fields), e.meaning) for e in EVENTS)
    yield from table(("event", "written by", "facts", "meaning"), *rows)


def roles() -> Iterator[str]:
    """The names that metrics of a role have."""
    rows = ((f"`{role}`", f"`{' '.join(names)}`") for role, names in ROLE_GUESSES.items())
    yield from table(("role", "names, in this order"), *rows)


def _facts(declared_fields: Iterable[Field]) -> str:
    return ", ".join(
        f"`{path}`" + (f" ({note})" if (note := _note(one)) else "")
        for path, one in _paths(declared_fields)
    )


def _paths(declared_fields: Iterable[Field]) -> Iterator[tuple[str, Field]]:
    """Fields with the names to get there, those of inner objects after what holds them."""
    for one in declared_fields:
        yield one.name, one
        inside = f"{one.name}[]." if one.type == "list" else f"{one.name}."
        for path, inner in _paths(one.fields):
            yield inside + path, inner


def _series(kind: Kind, one: Field) -> str:
    if kind.name == "allocator" and one.series:
        return f"`memory/<segment>/{one.name}`, of GPU n `memory/gpu<n>/<segment>/{one.name}`"
    if not one.series:
        return ""
    prefix = kind.prefix_for("<id>")
    if one.type == "object":
        return "the name as it is" if one.name == "m" else f"`{prefix}<name>`"
    return f"`{prefix}{one.name}`"


def _meaning(one: Field) -> str:
    choices = ", ".join(f"`{choice}`" for choice in one.choices)
    return "; ".join(part for part in (one.meaning, choices) if part)


def _note(one: Field) -> str:
    return ", ".join(part for part in (_meaning(one), one.unit) if part)


# -- the HTTP interface --------------------------------------------------------------------------


def endpoint_table() -> Iterator[str]:
    """Every endpoint of the server."""
    head = ("endpoint", "response", "parameters", "in an archive", "")
    yield from table(head, *map(_endpoint, endpoints.ENDPOINTS))


def _endpoint(endpoint: Endpoint) -> Sequence[str]:
    kind = response_type(endpoint)
    return (
        f"`{endpoint.method} {endpoint.path.replace('{run_id}', '{id}')}`",
        str(endpoint.response) if kind is None else f"`{kind.__name__}`",
        " ".join(map(_param, endpoint.params)),
        _archived(endpoint),
        endpoint.summary or _first_paragraph(endpoint.handler),
    )


def _first_paragraph(documented: object) -> str:
    """The first paragraph of a docstring, as it is written in a table."""
    paragraph = (inspect.getdoc(documented) or "").partition("\n\n")[0]
    text = " ".join(paragraph.split()).replace("``", "`").rstrip(".")
    return text[:1].lower() + text[1:]


def _param(param: Param[Any]) -> str:
    note = f" ({param.note})" if param.note else ""
    return f"`{param.name}`{'' if param.most is None else '…'}{note}"


def _archived(endpoint: Endpoint) -> str:
    if endpoint.archive is None:
        return ""
    return endpoint.archive.keep if isinstance(endpoint.archive, EntrySource) else "whole"


# -- the page ------------------------------------------------------------------------------------

_DECLARATION = re.compile(
    r"^export const section: RunSection = \{(.*?)\};$", re.DOTALL | re.MULTILINE
)
_SUMMARY = re.compile(r"/\*\* (.*?) \*/")


@dataclass(frozen=True, slots=True)
class Panel:
    """A section of a run on the page, as its file in ``web/src/panels`` declares it."""

    order: int
    id: str
    title: str
    shortcut: str
    summary: str


def declared_panels() -> list[Panel]:
    """Every panel, in the order of its tab."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(PANELS.glob("*.tsx")))
    found = [_panel(text, match[1]) for text in texts if (match := _DECLARATION.search(text))]
    return sorted(found, key=lambda panel: panel.order)


def _panel(text: str, declaration: str) -> Panel:
    def value(name: str) -> str:
        match = re.search(rf'\b{name}: "?([^",]+)', declaration)
        if match is None:
            raise ValueError(f"a panel declares no {name} as a plain value: {declaration}")
        return match[1]

    summary = _SUMMARY.match(text)
    if summary is None:
        raise ValueError(f"the file of the panel {value('id')} must begin with a comment: /** … */")
    names = (value("id"), value("title"), value("shortcut"))
    return Panel(int(value("order")), *names, summary[1])


def panels() -> Iterator[str]:
    """The sections of a run on the page."""
    rows = ((panel.title, f"`{panel.shortcut}`", panel.summary) for panel in declared_panels())
    yield from table(("section", "key", "what it shows"), *rows)


# ------------------------------------------------------------------------------------------------


def python(package: str, *names: str) -> Iterator[str]:
    """The names of a package, from their docstrings."""
    return python_names(package, names)


# -- rooms ---------------------------------------------------------------------------------------


def rooms() -> Iterator[str]:
    """A row for each package, by its first line: the lowest room first, each before its parts."""
    source = ROOT / "src" / "epochal"
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [name.strip() for layer in reversed(layers) for name in layer.split("|")]
    order = [source / name.removeprefix("epochal.") for name in names]
    rows = [("room", "what is in it")]
    for room in order:
        for file in sorted(room.rglob("__init__.py")):
            if not file.is_relative_to(source / "wandb" / "stand_in"):
                first = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
                path = file.parent.relative_to(source).as_posix()
                rows.append((f"`{path}/`", first.split("\n\n")[0].replace("``", "`")))
    yield from table(*rows)


PARTS: Mapping[str, Callable[..., Iterator[str]]] = {
    "commands": commands,
    "endpoints": endpoint_table,
    "events": events,
    "fields": record_fields,
    "kinds": kinds,
    "panels": panels,
    "python": python,
    "roles": roles,
    "rooms": rooms,
    "rules": rules,
    "settings": settings,
    "sinks": sinks,
}


# -- pages ---------------------------------------------------------------------------------------


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def marks() -> list[str]:
    """The marks of all pages."""
    texts = (page.read_text(encoding="utf-8") for page in pages())
    return [mark for text in texts for mark in _MARK.findall(text)]


def part(mark: str) -> str:
    """A generated part; the words after its name are its arguments."""
    name, *arguments = mark.split()
    return "\n".join(PARTS[name](*arguments)).strip("\n")


def filled(text: str) -> str:
    """The text of a page with its parts as they are now."""
    mark = "<!-- generated: {} -->\n\n{}\n\n<!-- end -->"
    return _PART.sub(lambda old: mark.format(old[1], part(old[1])), text)


def without_generated(text: str) -> str:
    """The text of a page without its parts: what somebody wrote."""
    return _PART.sub("", text)


def stale_pages() -> Iterator[tuple[Path, str]]:
    """Every page whose parts are not as they are now, with the text that it should have."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if len(_MARK.findall(text)) != len(_PART.findall(text)):
            name = page.relative_to(ROOT)
            raise SystemExit(f"{name} has a generated part without its line <!-- end -->.")
        wanted = filled(text)
        if wanted != text:
            yield page, wanted


def main() -> int:
    is_check = "--check" in sys.argv[1:]
    stale = list(stale_pages())
    for page, wanted in stale:
        if is_check:
            print(f"{page.relative_to(ROOT)} is stale: run 'make docs', and commit the page.")
        else:
            page.write_text(wanted, encoding="utf-8")
    return int(is_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
