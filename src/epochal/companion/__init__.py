"""The process beside a run: telemetry, rules, sealing, sinks and alerts, away from the training."""
