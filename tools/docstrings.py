"""What a docstring says, by its sections, and the pages of Python names that are made of it."""

from __future__ import annotations

import enum
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example):\n", re.MULTILINE)
_ENTRY = re.compile(r"^\*{0,2}(\w[\w, *]*): ?(.*)$")
_EXAMPLE = re.compile(r"::\n\n((?:(?: {4}.*)?\n)* {4}.*)")
_MAX_WIDTH = 88


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring in Google's style."""

    text: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: Mapping[str, str] = field(default_factory=dict)
    example: str = ""

    @property
    def summary(self) -> str:
        """The first paragraph."""
        return self.text.partition("\n\n")[0]


def parsed(of: object) -> Docstring:
    """Return the docstring of something by its sections."""
    own = of.__doc__ if inspect.isclass(of) else inspect.getdoc(of)
    text, *rest = _SECTION.split(inspect.cleandoc(own or ""))
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    after = [_outside(body) for body in sections.values()]
    inside = {name: _inside(body) for name, body in sections.items()}
    return Docstring(
        "\n\n".join(part.strip() for part in (text, *after) if part.strip()),
        _entries(inside.get("Args", "")),
        _entries(inside.get("Attributes", "")),
        inside.get("Returns", inside.get("Yields", "")).strip(),
        _entries(inside.get("Raises", "")),
        inside.get("Example", "").strip("\n"),
    )


def _inside(body: str) -> str:
    """The indented lines that a section begins with."""
    return textwrap.dedent("\n".join(_split(body)[0]))


def _outside(body: str) -> str:
    """What follows them: prose that belongs to no section."""
    return "\n".join(_split(body)[1])


def _split(body: str) -> tuple[list[str], list[str]]:
    lines = body.splitlines()
    end = next((n for n, line in enumerate(lines) if line[:1].strip()), len(lines))
    return lines[:end], lines[end:]


def _entries(section: str) -> dict[str, str]:
    """``name: text`` lines; lines that are indented further continue the text."""
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        match = _ENTRY.match(line)
        if match:
            name = match[1]
            found[name] = match[2]
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {part.strip(" *"): text for names, text in found.items() for part in names.split(",")}


def public_members(of: type) -> dict[str, Any]:
    """The members that Epochal gives a class, in the order of the source; not those of torch."""
    found: dict[str, Any] = {}
    for base in reversed(of.__mro__):
        if base.__module__.startswith("epochal") and not issubclass(base, enum.Enum):
            own = vars(base).items()
            found.update({n: m for n, m in own if not n.startswith("_") and _is_member(m)})
    return found


def _is_member(member: Any) -> bool:
    return isinstance(member, property | classmethod | staticmethod) or callable(member)


def function_of(member: Any) -> Any:
    """The function behind a member of a class."""
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def parameters(of: Any) -> list[inspect.Parameter]:
    """The parameters that a caller gives; none where Python does not tell."""
    if inspect.isclass(of) and issubclass(of, enum.Enum | BaseException):
        return []
    try:
        found = inspect.signature(of).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in found if one.name not in ("self", "cls")]


def python_names(package: str, names: Sequence[str]) -> Iterator[str]:
    """A section for each name of a package, in this order; all its public names without any."""
    module = pkgutil.resolve_name(package)
    for name in names or sorted(module.__all__, key=str.lower):
        yield from _section(f"{package}.{name}", getattr(module, name))


def _section(name: str, of: Any) -> Iterator[str]:
    short = name.rpartition(".")[2]
    yield f"## `{short}`\n"
    yield from _callable(name, of)
    if not inspect.isclass(of):
        return
    members = public_members(of)
    properties = {n: m for n, m in members.items() if isinstance(m, property)}
    if properties:
        yield "| property | |\n|---|---|"
        for member, value in properties.items():
            text = " ".join(parsed(value).text.split())
            yield f"| `{member}` | {_prose(text).replace('|', '&#124;')} |"
        yield ""
    for member, value in members.items():
        if member not in properties:
            yield f"### `{short}.{member}`\n"
            yield from _callable(f"{short}.{member}", function_of(value))


def _callable(name: str, of: Any) -> Iterator[str]:
    if not (inspect.isclass(of) and issubclass(of, enum.Enum | BaseException)):
        yield f"```python\n{signature(name, of)}\n```\n"
    said = parsed(of)
    yield f"{_prose(said.text)}\n"
    for title, entries in (("Arguments", said.arguments), ("Attributes", said.attributes)):
        if entries:
            yield f"**{title}**\n"
            yield from (f"- `{one}`: {_prose(text)}" for one, text in entries.items())
            yield ""
    if said.returns:
        yield f"**Returns** {_prose(' '.join(said.returns.split()))}\n"
    for error, text in said.raises.items():
        yield f"**Raises** `{error}`: {_prose(text)}\n"
    if said.example:
        yield f"```python\n{said.example}\n```\n"


def signature(name: str, of: Any) -> str:
    """A call as it stands in the source; one line for each argument where it is long."""
    try:
        given = inspect.signature(of)
    except (TypeError, ValueError):
        return f"{name}(…)"
    own = [one for one in given.parameters.values() if one.name not in ("self", "cls")]
    arguments = list(_arguments(own))
    result = "" if inspect.isclass(of) else _annotation(given.return_annotation, " -> ")
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= _MAX_WIDTH:
        return line
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{lines}){result}"


def _arguments(given: Sequence[inspect.Parameter]) -> Iterator[str]:
    only_named = False
    for number, one in enumerate(given):
        if one.kind is one.KEYWORD_ONLY and not only_named:
            only_named = True
            if not any(other.kind is one.VAR_POSITIONAL for other in given[:number]):
                yield "*"
        star = "*" * (one.kind is one.VAR_POSITIONAL) + "**" * (one.kind is one.VAR_KEYWORD)
        text = f"{star}{one.name}{_annotation(one.annotation, ': ')}"
        if one.default is not one.empty:
            text += f"{' = ' if ':' in text else '='}{_default(one.default)}"
        yield text


def _annotation(value: Any, before: str) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if not isinstance(value, str):  # its text would depend on the version of Python
        raise TypeError(f"{value} is no text: its module must import annotations from __future__")
    return before + value


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return str(getattr(value, "__name__", "…"))
    shown = repr(value)
    return "…" if shown.startswith("<") else shown


def _prose(text: str) -> str:
    """Docstrings write code in two backticks, and examples after two colons; a page does not."""
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return _EXAMPLE.sub(lambda one: f":\n\n```python\n{textwrap.dedent(one[1])}\n```", text)
