"""The process beside a run: telemetry, sealing and sinks, so that none of it touches training."""
