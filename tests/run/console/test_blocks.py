from typing import Any

from epochal.run.console.blocks import (
    Segment,
    allocator_block,
    dataset_block,
    gpu_model_block,
    options_block,
    phases_block,
    speed_of_light_block,
)

GB = 2**30
WORK = {"blocks": 5e8, "lm_head": 2e8, "attention": 5e7}


def test_speed_of_light() -> None:
    work = {"blocks": 123.4e9, "lm_head": 45.6e9, "attention": 78.9e9}
    block = speed_of_light_block({**work, "bf16_peak": 989.5, "fp8_peak": 1979.0, "tps": 156_000})
    assert block == (
        "[Speed of Light]\n"
        "  Peak BF16:    989.5 TFLOP/s\n"
        "  Blocks:       123.4 GFLOP   in bf16\n"
        "  LM-Head:       45.6 GFLOP   in bf16\n"
        "  Attention:     78.9 GFLOP   in bf16\n"
        "  SOL:          156000 tok/s"
    )


def test_speed_of_light_of_small_work_on_an_unknown_device() -> None:
    block = speed_of_light_block({"blocks": 1.5e9, "lm_head": 2e6, "attention": 3e6})
    assert "Peak" not in block
    assert "  Blocks:      1500.0 MFLOP   in bf16" in block
    assert block.endswith("  SOL:       unavailable")


def test_peaks_of_the_dtypes_in_use() -> None:
    peaks = {"tf32_peak": 494.7, "bf16_peak": 989.4, "fp8_peak": 1978.9}
    block = speed_of_light_block({**WORK, **peaks, "dtype": "fp8", "lm_head_dtype": "fp32"})
    assert block.count("Peak") == 2
    assert "  Peak TF32:    494.7 TFLOP/s\n  Peak  FP8:   1978.9 TFLOP/s" in block


def test_speed_of_light_as_measured_on_many_devices() -> None:
    peaks = {"bf16_peak": 989.5, "fp8_peak": 1979.0, "measured_peak": 1500.0}
    facts = {"device": "NVIDIA H200", "world_size": 8, "note": "60 of 132 multiprocessors"}
    dtypes = {"dtype": "fp8", "lm_head_dtype": "bf16"}
    block = speed_of_light_block({**WORK, **peaks, **facts, **dtypes, "tps": 10_000_000})
    assert block.splitlines()[1:4] == [
        "  Device:    8 x NVIDIA H200",
        "  Peak BF16:    989.5 TFLOP/s",
        "  Peak  FP8:   1979.0 TFLOP/s   measured 1500 of 1979 TFLOP/s, 76 %",
    ]
    assert block.splitlines()[-1] == "  Note:      60 of 132 multiprocessors"


def test_speed_of_light_that_is_known_only_as_measured() -> None:
    peaks = {"fp32_peak": 0.0372, "measured_peak": 0.0372, "dtype": "fp32"}
    block = speed_of_light_block({**WORK, **peaks})
    assert "  Peak FP32:    0.037 TFLOP/s   measured" in block.splitlines()


def test_a_dataset_is_a_line_and_its_files_on_request() -> None:
    names = [f"shard{i:02d}.bin" for i in range(12)]
    record: dict[str, Any] = {"split": "train", "tokens": 1_200_000_000, "names": names}
    assert dataset_block(record) == "[Dataset]\n  train: 1.2B tokens in 12 files"
    block = dataset_block(record, with_files=True).splitlines()
    assert (block[2], len(block)) == ("    shard00.bin", 14)


def test_dataset_without_file_names() -> None:
    block = dataset_block({"split": "eval", "tokens": 125_300, "files": 1})
    assert block == "[Dataset]\n  eval: 125.3k tokens in 1 file"


def test_gpu_model() -> None:
    record = {
        "name": "NVIDIA H100 80GB HBM3",
        "sm_count": 132,
        "major": 9,
        "minor": 0,
        "memory": 80 * GB,
        "free": 79 * GB,
        "cuda_driver": 12040,
        "cuda_runtime": 12010,
    }
    assert gpu_model_block(record) == (
        "[System 0]\n"
        "  Device 0: NVIDIA H100 80GB HBM3\n"
        "  132 SMs, compute capability 9.0\n"
        "  CUDA version: driver 12.4, runtime 12.1\n"
        "  Memory: 1024 MiB / 81920 MiB"
    )


def test_gpu_model_of_a_silent_device() -> None:
    record = {"name": "some GPU", "rank": 1, "memory": None}
    assert gpu_model_block(record) == "[System 1]\n  Device 0: some GPU"


def test_options_are_a_table_with_dotted_names() -> None:
    block = options_block({"lr": 0.001, "model": {"layers": 12, "text": "a\nb"}, "empty": {}})
    assert block == (
        "[Options]\n"
        "  lr           : 0.001\n"
        "  model.layers : 12\n"
        "  model.text   : a\\nb\n"
        "  empty        : {}"
    )


def test_no_options() -> None:
    assert options_block({}) == "[Options]"


def test_allocator() -> None:
    block = allocator_block(
        [Segment("weights", device=4 * GB), Segment("optimizer", device=2 * GB, pinned=8 * GB)]
    )
    assert block == (
        "[Allocator]\n"
        "                 device      pinned\n"
        "  weights       4.0 GiB           -\n"
        "  optimizer     2.0 GiB     8.0 GiB\n"
        "  total         6.0 GiB     8.0 GiB"
    )


def test_phases_longest_first() -> None:
    means = {"phase/data": 4.5, "phase/forward": 14.0, "phase/other": 0.5}
    record = {"m": means, "wall_ms": 20.0, "step": 99, "steps": 50, "clock": "gpu"}
    assert phases_block({**record, "host_bound": 0.25}, "70 % useful") == (
        "[Phases] 50 steps to 99, 20.0 ms each by the GPU's clock\n"
        "  forward     14.00 ms   70.0 %\n"
        "  data         4.50 ms   22.5 %\n"
        "  other        0.50 ms    2.5 %\n"
        "  the GPU waited for the host in 25 % of these steps\n"
        "  70 % useful"
    )
