"""Tests the integrations of frameworks that ``make test`` does not install.

    python tools/frameworks.py [NAME ...]   set up .frameworks/NAME and run its tests there
    python tools/frameworks.py --check      fail when a result is missing, failed or too old

Each framework has an environment of its own, on top of ``.venv``: torch, pytest and Epochal come
from there. The result, its date and the versions are written into ``docs/how-to/integrations.md``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-to" / "integrations.md"
MAX_AGE = timedelta(days=120)
# What pip installs for each; the first is the framework itself.
FRAMEWORKS: Mapping[str, Sequence[str]] = {
    "aim": ("aim",),
    "jax": ("jax", "flax", "optax"),
    "keras": ("keras",),
    "lightgbm": ("lightgbm", "scikit-learn"),
    "mlflow": ("mlflow",),
    "optuna": ("optuna",),
    "ray": ("ray[tune,train]",),
    "ray_data": ("ray", "pandas"),
    "stable_baselines3": ("stable-baselines3",),
    "trl": ("trl",),
    "xgboost": ("xgboost", "scikit-learn"),
}
_BLOCK = re.compile(r"(<!-- results -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)
_HEAD = "| framework | result | date | versions |\n|---|---|---|---|\n"
_VERSIONS = (
    "import platform, sys; from importlib.metadata import version; "
    "print(', '.join(f'{n} {version(n)}' for n in sys.argv[1:]) "
    "+ ', Python ' + platform.python_version())"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Test the frameworks that are named, or all; or check the results."""
    parser = argparse.ArgumentParser(description="test integrations with real frameworks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FRAMEWORKS))
    parser.add_argument("--check", action="store_true", help="fail when a result is too old")
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.names) - set(FRAMEWORKS))
    if unknown:
        parser.error(f"no framework {unknown[0]!r}; there are {', '.join(FRAMEWORKS)}")
    if args.check:
        found = complaints(PAGE.read_text(encoding="utf-8"), date.today())
        print("\n".join(found), end="\n" if found else "")
        return int(bool(found))
    results = [tested(name) for name in args.names or FRAMEWORKS]
    return int(not all(results))


def complaints(page: str, today: date) -> list[str]:
    """What is wrong with the results in the docs: a sentence each."""
    rows, found = rows_of(page), []
    for name in FRAMEWORKS:
        again = f"run 'make test-frameworks NAME={name}'"
        if name not in rows:
            found.append(f"docs/how-to/integrations.md has no result of {name}: {again}")
            continue
        result, day, _ = rows[name]
        if not result.startswith("passed"):
            found.append(f"the tests of {name} {result} on {day}: {again}")
        elif today - date.fromisoformat(day) > MAX_AGE:
            found.append(f"the result of {name} is of {day}, over {MAX_AGE.days} days ago: {again}")
    return found


def rows_of(page: str) -> dict[str, tuple[str, str, str]]:
    """Result, date and versions by framework, as the docs have them."""
    block = _BLOCK.search(page)
    if block is None:
        raise SystemExit("docs/how-to/integrations.md has no line '<!-- results -->'")
    lines = block.group(2).splitlines()[2:]
    cells = ([cell.strip() for cell in line.strip("| ").split("|")] for line in lines)
    return {name: (result, day, versions) for name, result, day, versions in cells}


def with_row(page: str, name: str, row: tuple[str, str, str]) -> str:
    """The page with a new result of one framework; those that are gone are left out."""
    rows = {**rows_of(page), name: row}
    lines = [f"| {n} | {' | '.join(rows[n])} |\n" for n in FRAMEWORKS if n in rows]
    return _BLOCK.sub(lambda block: block[1] + _HEAD + "".join(lines) + block[3], page)


def tested(name: str) -> bool:
    """Run the tests of one framework, and write the result; False when they fail."""
    python = environment(name)
    print(f"tests/frameworks/test_{name}.py", flush=True)
    # Warnings of the frameworks' own code are not errors here.
    command = [str(python), "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"tests/frameworks/test_{name}.py"], cwd=ROOT, capture_output=True, text=True
    )
    print(done.stdout[-6000:] + done.stderr[-2000:], flush=True)
    found = re.findall(r"(\d+) (passed|failed|error)", done.stdout)
    counts = {word: int(number) for number, word in found}
    passed = done.returncode == 0 and counts.get("passed", 0) > 0
    result = f"passed ({counts['passed']} tests)" if passed else "failed"
    packages = [re.sub(r"\[.*\]", "", package) for package in FRAMEWORKS[name]]
    versions = subprocess.run(
        [python, "-c", _VERSIONS, *packages], capture_output=True, text=True, check=True
    ).stdout.strip()
    row = (result, date.today().isoformat(), versions)
    PAGE.write_text(with_row(PAGE.read_text(encoding="utf-8"), name, row), encoding="utf-8")
    return passed


def environment(name: str) -> Path:
    """The Python of a framework's environment, which is made where it is missing."""
    folder = ROOT / ".frameworks" / name
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        print(f"setting up .frameworks/{name}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        site = sysconfig.get_path("purelib", vars={"base": str(folder)})
        base = sysconfig.get_path("purelib")
        line = f"import site; site.addsitedir({base!r})\n"
        Path(site, "epochal_base.pth").write_text(line, encoding="utf-8")
        install = [str(python), "-m", "pip", "install", "--quiet", *FRAMEWORKS[name]]
        subprocess.run(install, check=True)
        (folder / ".installed").touch()
    return python


if __name__ == "__main__":
    sys.exit(main())
