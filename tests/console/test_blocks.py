from epochal.console.blocks import (
    DataFile,
    DatasetSplit,
    Segment,
    allocator_block,
    dataset_block,
    gpu_model_block,
    options_block,
    phases_block,
    speed_of_light_block,
)

GB = 2**30


def test_speed_of_light() -> None:
    block = speed_of_light_block(
        {"bf16": 989.5, "fp8": 1979.0},
        blocks=123.4e9,
        lm_head=45.6e9,
        attention=78.9e9,
        tps=156_000,
    )
    assert block == (
        "[Speed of Light]\n"
        "  Peak BF16:    989.5 TFLOP/s\n"
        "  Blocks:       123.4 GFLOP   in bf16\n"
        "  LM-Head:       45.6 GFLOP   in bf16\n"
        "  Attention:     78.9 GFLOP   in bf16\n"
        "  SOL:          156000 tok/s"
    )


def test_speed_of_light_of_small_work_on_an_unknown_device() -> None:
    block = speed_of_light_block({}, blocks=1.5e9, lm_head=2e6, attention=3e6, tps=None)
    assert "Peak" not in block
    assert "  Blocks:      1500.0 MFLOP   in bf16" in block
    assert block.endswith("  SOL:       unavailable")


def test_peaks_of_the_dtypes_in_use() -> None:
    block = speed_of_light_block(
        {"tf32": 494.7, "bf16": 989.4, "fp8": 1978.9},
        blocks=1,
        lm_head=1,
        attention=1,
        tps=1,
        blocks_dtype="fp8",
        lm_head_dtype="fp32",
        attention_dtype="fp8",
    )
    assert block.count("Peak") == 2
    assert "  Peak TF32:    494.7 TFLOP/s\n  Peak  FP8:   1978.9 TFLOP/s" in block


def test_a_dataset_is_a_line_per_split() -> None:
    files = [DataFile(f"shard{i:02d}.bin", tokens=100_000_000) for i in range(12)]
    splits = [DatasetSplit("train", tokens=1_200_000_000, files=files)]
    assert dataset_block(splits) == "[Dataset]\n  train: 1.2B tokens in 12 files"


def test_all_files_of_a_dataset() -> None:
    files = [DataFile(f"shard{i:02d}.bin", tokens=100_000_000) for i in range(12)]
    splits = [DatasetSplit("train", tokens=1_200_000_000, files=files)]
    block = dataset_block(splits, with_files=True).splitlines()
    assert block[2] == "    shard00.bin :    100000000"
    assert len(block) == 14


def test_a_file_whose_tokens_are_not_counted_is_its_name_alone() -> None:
    files = [DataFile("generated"), DataFile("b.bin", tokens=5)]
    splits = [DatasetSplit("train", tokens=9, files=files)]
    block = dataset_block(splits, with_files=True).splitlines()
    assert block[2:] == ["    generated", "    b.bin     :            5"]


def test_dataset_without_file_names() -> None:
    block = dataset_block([DatasetSplit("eval", tokens=125_300, num_files=1)])
    assert block == "[Dataset]\n  eval: 125.3k tokens in 1 file"


def test_gpu_model() -> None:
    block = gpu_model_block(
        "NVIDIA H100 80GB HBM3",
        sm_count=132,
        major=9,
        minor=0,
        memory_bytes=80 * GB,
        free_bytes=79 * GB,
        cuda_driver=12040,
        cuda_runtime=12010,
    )
    assert block == (
        "[System 0]\n"
        "  Device 0: NVIDIA H100 80GB HBM3\n"
        "  132 SMs, compute capability 9.0\n"
        "  CUDA version: driver 12.4, runtime 12.1\n"
        "  Memory: 1024 MiB / 81920 MiB"
    )


def test_gpu_model_of_a_silent_device() -> None:
    assert gpu_model_block("some GPU", rank=1) == "[System 1]\n  Device 0: some GPU"


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


def test_speed_of_light_as_measured_on_many_devices() -> None:
    block = speed_of_light_block(
        {"tf32": 494.5, "bf16": 989.5, "fp8": 1979.0},
        blocks=5e8,
        lm_head=2e8,
        attention=5e7,
        tps=10_000_000,
        blocks_dtype="fp8",
        device="NVIDIA H200",
        num_devices=8,
        measured=1500.0,
        note="60 of 132 multiprocessors",
    )
    assert block.splitlines()[1:4] == [
        "  Device:    8 x NVIDIA H200",
        "  Peak BF16:    989.5 TFLOP/s",
        "  Peak  FP8:   1979.0 TFLOP/s   measured 1500 of 1979 TFLOP/s, 76 %",
    ]
    assert block.splitlines()[-1] == "  Note:      60 of 132 multiprocessors"


def test_speed_of_light_that_is_known_only_as_measured() -> None:
    block = speed_of_light_block(
        {"fp32": 0.0372},
        blocks=5e8,
        lm_head=2e8,
        attention=5e7,
        tps=46,
        blocks_dtype="fp32",
        lm_head_dtype="fp32",
        attention_dtype="fp32",
        measured=0.0372,
    )
    assert "  Peak FP32:    0.037 TFLOP/s   measured" in block.splitlines()


def test_phases_longest_first() -> None:
    block = phases_block(
        {"data": 4.5, "forward": 14.0, "other": 0.5},
        wall_ms=20.0,
        last_step=99,
        steps=50,
        by_gpu=True,
        host_bound=0.25,
    )
    assert block == (
        "[Phases] 50 steps to 99, 20.0 ms each by the GPU's clock\n"
        "  forward     14.00 ms   70.0 %\n"
        "  data         4.50 ms   22.5 %\n"
        "  other        0.50 ms    2.5 %\n"
        "  the GPU waited for the host in 25 % of these steps"
    )
