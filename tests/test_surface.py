"""The public surface is a set of exact lists: a name that comes or goes shows up here as a diff."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import epochal
import epochal.health
import epochal.run.console
import epochal.torch

ROOT = """
Audio Checkpoints EarlyStopping EpochMetrics EpochRecord EpochalError FlowBuilder Frame Graph
LogVerbosity LostTime Monitor RankMetrics Retention Run RunFinishedError RunNotFoundError
Html Image Markdown SummaryWriter Table Video
TrainingRunLogger TrainingState Trend TrendGroup UsageError __version__ board current_run
explain_phases finish frame init load
log open points preflight speed_of_light track watch watch_data watch_memory watch_moe
""".split()

CONSOLE = """
Verbosity debug enabled format_duration msg set_verbosity trace verbose verbosity
""".split()

HEALTH = ["diagnose"]

TORCH = """
CaptureMode ClipStats CosineScheduler CpuWorker CudaGraph CyclicLR ExponentialLR LoadReport
MergeOp ModelSnapshot MoeAccumulator MultiStepLR OneCycleLR PlateauScheduler Rng Scheduler
SpeedOfLight StepDecay WarmupScheduler clip_grad_norm clip_grad_value cuda_active_bytes
cuda_allocated_bytes cuda_empty_cache cuda_graph_capture cuda_manual_seed_all
cuda_peak_active_bytes cuda_peak_reserved_bytes cuda_reset_peak_stats freeze
is_frozen kaiming_normal kaiming_uniform load_checkpoint load_checkpoint_file manual_seed
memory_guard memory_segments moe_stats normal orthogonal picture_of save_checkpoint
seed_everything set_data set_lr snapshot_cpu structural_hash trunc_normal unfreeze uniform
uniform_bias xavier_normal xavier_uniform
""".split()

RUN = """
alert attempt config define diagnosis dir event files finish flush fork id log log_abs_maxes
log_allocator log_dataset log_epoch log_eval log_file log_gpu_model log_gpu_state log_graph
log_moe_stats log_sol_estimate log_step message name on_finish phase project rank save_html
section serve state step summary write
""".split()

MONITOR = """
export_csv finish finish_with history log save_html serve set_metadata watch watch_profiled
write_log
""".split()

LISTS = [
    (epochal, [name for name in ROOT if name != "open"]),
    (epochal.console, CONSOLE),
    (epochal.health, HEALTH),
    (epochal.torch, TORCH),
]


def public_members(of: type) -> list[str]:
    return sorted(name for name in dir(of) if not name.startswith("_"))


@pytest.mark.parametrize(("package", "names"), LISTS)
def test_the_public_names_are_these(package: ModuleType, names: list[str]) -> None:
    assert sorted(package.__all__) == sorted(names)


SOURCE = Path(epochal.__file__).parents[1]


def test_the_public_members_of_a_run_are_these() -> None:
    assert public_members(epochal.Run) == sorted(RUN)


def test_the_public_members_of_a_monitor_are_these() -> None:
    assert public_members(epochal.Monitor) == sorted(MONITOR)


@pytest.mark.parametrize(("package", "names"), LISTS)
def test_every_public_name_says_what_it_is(package: ModuleType, names: list[str]) -> None:
    for name in set(names) - {"__version__"}:
        assert inspect.getdoc(getattr(package, name)), name


def test_every_argument_of_init_is_described_in_its_docstring() -> None:
    documented = re.findall(r"^ {4}\**(\w+): ", inspect.getdoc(epochal.init) or "", re.MULTILINE)
    arguments = list(inspect.signature(epochal.init).parameters)
    assert [name for name in documented if name[0].islower()] == arguments
    assert len(arguments) <= 20


@pytest.mark.parametrize("of", [epochal.Run, epochal.Monitor])
def test_every_public_member_says_what_it_is(of: type) -> None:
    for name in public_members(of):
        assert inspect.getdoc(getattr(of, name)), name


def test_a_public_name_has_one_place() -> None:
    every = [*ROOT, *CONSOLE, *HEALTH, *TORCH]
    assert sorted(every) == sorted(set(every))


def test_the_packages_with_public_names_need_no_import_of_their_own() -> None:
    script = (
        "import sys, epochal\n"
        "assert 'epochal.torch' not in sys.modules\n"
        "epochal.torch.CosineScheduler, epochal.console.msg, epochal.health.diagnose\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_root_has_no_name_of_the_families() -> None:
    assert [name for name in [*TORCH, *CONSOLE] if hasattr(epochal, name)] == []
    assert set(dir(epochal)) == {*ROOT, "console", "health", "torch"}


def test_a_star_import_replaces_no_builtin() -> None:
    names: dict[str, object] = {}
    exec("from epochal import *", names)
    shadowed = {name for name in names if hasattr(builtins, name)} - {"__builtins__"}
    assert {name for name in shadowed if not name.startswith("__")} == set()
    assert epochal.open.__module__ == "epochal.api.reading"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(epochal, "nothing_of_this_name")


def test_the_type_checker_sees_the_same_names_as_the_lazy_table() -> None:
    tree = ast.parse(Path(epochal.__file__).read_text(encoding="utf-8"))
    typed: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            for inner in ast.walk(node):
                if isinstance(inner, ast.ImportFrom):
                    typed.update(alias.name for alias in inner.names)
    assert typed - {"Any"} == {*ROOT, "console", "health", "torch"}


def test_importing_the_package_loads_the_torch_hooks_and_no_typing() -> None:
    script = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import epochal\n"
        "print(*sorted(set(sys.modules) - before - {'__future__'}))\n"
    )
    bare = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {[str(SOURCE)]!r}\n{script}"]
    done = subprocess.run(bare, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["epochal", "epochal.base", "epochal.base.torch_hooks"]


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
    for package, names in LISTS:
        folder = Path(str(package.__file__)).parent
        assert {path.stem for path in folder.iterdir()}.isdisjoint(names), package


# -- paths -----------------------------------------------------------------------------------------

REPOSITORY = Path(__file__).parents[1]
POLICY = REPOSITORY / "docs" / "explanation" / "compatibility.md"


def public_paths() -> set[str]:
    """The paths that programs may import from, as the policy lists them."""
    table = POLICY.read_text(encoding="utf-8").partition("| path | for |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return {path for cell in cells for path in re.findall(r"`([\w.*]+)`", cell)}


def integrations() -> set[str]:
    folder = SOURCE / "epochal" / "integrations"
    return {f"epochal.integrations.{path.stem}" for path in folder.glob("*.py")}


def test_every_public_path_is_a_module() -> None:
    paths = public_paths()
    assert "epochal.torch" in paths
    for path in (paths - {"epochal.integrations.*"}) | integrations():
        assert find_spec(path) is not None, path


def test_documents_and_scripts_import_from_public_paths_only() -> None:
    statement = re.compile(r"^ *(?:from|import) (epochal[\w.]*)", re.MULTILINE)
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    found = {
        (path.name, module)
        for path in [*pages, *(REPOSITORY / "examples").glob("*.py")]
        for module in statement.findall(path.read_text(encoding="utf-8"))
    }
    allowed = public_paths() | integrations()
    assert len(found) > 20
    assert {(page, module) for page, module in found if module not in allowed} == set()
