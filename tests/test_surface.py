"""The public surface is a list: a change of it shows up here as a diff."""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import epochal

NAMES = """
EpochMetrics EpochRecord EpochalError LogVerbosity LostTime Monitor RankMetrics Run RunFinishedError
RunNotFoundError TrainingRunLogger Trend TrendGroup UsageError Verbosity __version__ current_run
debug enabled explain_phases finish format_duration init load log msg set_verbosity
trace verbose verbosity
""".split()

RUN_CALLS = """
define event finish flush log log_abs_maxes log_allocator log_dataset log_epoch log_eval
log_gpu_model log_gpu_state log_graph log_histogram log_image log_moe_stats log_sol_estimate
log_step log_text message phase section set_config
""".split()


def test_the_public_names_are_these() -> None:
    assert sorted(epochal.__all__) == sorted(NAMES)


def test_every_public_name_can_be_imported_and_says_what_it_is() -> None:
    for name in NAMES:
        assert getattr(epochal, name) is not None
        if name not in {"__version__"}:
            assert inspect.getdoc(getattr(epochal, name)), name


def test_a_star_import_replaces_no_builtin() -> None:
    names: dict[str, object] = {}
    exec("from epochal import *", names)
    shadowed = {name for name in names if hasattr(builtins, name)} - {"__builtins__"}
    assert {name for name in shadowed if not name.startswith("__")} == set()
    assert epochal.open.__module__ == "epochal.reading"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(epochal, "nothing_of_this_name")


def test_a_run_offers_these_calls() -> None:
    for name in RUN_CALLS:
        assert callable(getattr(epochal.Run, name))


def test_the_type_checker_sees_the_same_names_as_the_lazy_table() -> None:
    tree = ast.parse(Path(epochal.__file__).read_text(encoding="utf-8"))
    typed: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            for inner in ast.walk(node):
                if isinstance(inner, ast.ImportFrom):
                    typed.update(alias.name for alias in inner.names)
    assert typed - {"*"} | {"__version__"} == {*epochal.__all__, "open"}


def test_what_sits_around_a_torch_loop_is_reached_from_the_package_itself() -> None:
    import epochal.torch

    for name in epochal.torch.__all__:
        assert getattr(epochal, name) is getattr(epochal.torch, name)
        assert name in dir(epochal)


def test_importing_the_package_and_logging_load_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys, epochal\n"
        "run = epochal.init(dir=sys.argv[1], console=False)\n"
        "run.log({'loss': 1.0})\n"
        "run.finish()\n"
        "heavy = {'numpy', 'torch', 'rich', 'psutil', 'pynvml', 'pyarrow', 'starlette', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_module_hides_a_public_name_of_its_own() -> None:
    """A submodule that is imported becomes an attribute of its package and would stand for it."""
    folder = Path(epochal.__file__).parent / "torch"
    modules = {path.stem for path in folder.iterdir()}
    assert modules.isdisjoint(import_module("epochal.torch").__all__)
