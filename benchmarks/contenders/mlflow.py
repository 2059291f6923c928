"""MLflow into a SQLite file, its default since the file store was retired."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role


class MLflow:
    name = "mlflow sqlite"
    role: Role = "peer"
    requirements: tuple[str, ...] = ("mlflow",)
    import_statement = "import mlflow"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        import mlflow

        mlflow.set_tracking_uri(f"sqlite:///{directory}/mlflow.db")
        mlflow.start_run()
        self._mlflow = mlflow
        log: Log = mlflow.log_metrics
        return log

    def close(self) -> None:
        self._mlflow.end_run()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{directory}/mlflow.db")
        (run,) = client.search_runs(["0"])
        histories = (client.get_metric_history(run.info.run_id, key) for key in keys)
        return set.intersection(*({metric.step for metric in history} for history in histories))
