from epochal.telemetry.host import HOST_METRICS, HostSample
from epochal.telemetry.source import Reading, readings


def test_readings_follow_the_table_and_keep_absence() -> None:
    sample = HostSample(cpu_pct=None, ram_used=3, ram_total=8)
    assert readings(sample, metrics=HOST_METRICS) == [
        Reading("cpu_pct", "%", None),
        Reading("ram_used", "bytes", 3),
        Reading("ram_total", "bytes", 8),
    ]
