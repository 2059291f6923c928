"""The process in which a contender runs: one measure's own `work`, in the contender's environment.

python -m benchmarks.worker ORDER.json     answers into the file the order names
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.contenders import every_contender


def main(order: dict[str, Any]) -> None:
    (contender,) = (one for one in every_contender() if one.name == order["contender"])
    measure = importlib.import_module(f"benchmarks.measures.{order['measure']}")
    answer = measure.work(contender, Path(order["directory"]), **order["parameters"])
    Path(order["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
