"""What a training loop records of its steps: losses, evaluations, epochs, experts, times."""

from __future__ import annotations

from epochal.records.kind import Field, kind, nested, numbers, series

FREE_METRICS = series("m", meaning="free metrics, name to number", type="object")

STEP = kind(
    "step",
    "step",
    "one optimisation step",
    series("loss", role="loss", tensorboard="Loss/train"),
    series(
        "norm", meaning="gradient norm before clipping", role="norm", tensorboard="Gradient/norm"
    ),
    series(
        "norm_clipped", meaning="gradient norm after clipping", tensorboard="Gradient/norm_clipped"
    ),
    series("lr", meaning="learning rate", role="lr", tensorboard="Learning_Rate/lr"),
    series("epoch", meaning="completed epochs, with a fraction", tensorboard="Training/epoch"),
    series(
        "step_tokens",
        "tokens",
        "tokens of this step",
        type="count",
        tensorboard="Training/step_tokens",
    ),
    series("duration_ms", "ms", tensorboard="Performance/step_time_ms"),
    series(
        "tokens_per_second", "tokens/s", role="throughput", tensorboard="Performance/tokens_per_sec"
    ),
    series("kd_loss", meaning="loss of distillation", tensorboard="Loss/distillation"),
    series("sol", "%", "share of the speed of light", tensorboard="Performance/sol"),
    Field("phase", "text", meaning="what the training is doing, such as warmup"),
    FREE_METRICS,
    dense=True,
    prefix="train/",
    families={"moe_": "moe/"},
)

EVAL = kind(
    "eval",
    "step",
    "one evaluation",
    series("loss", role="eval_loss", tensorboard="Loss/validation"),
    series(
        "eval_tokens", "tokens", "tokens evaluated", type="count", tensorboard="Evaluation/tokens"
    ),
    series("duration_ms", "ms", tensorboard="Evaluation/time_ms"),
    series("tokens_per_second", "tokens/s", tensorboard="Evaluation/tokens_per_sec"),
    Field("epoch", meaning="completed epochs, with a fraction"),
    FREE_METRICS,
    prefix="eval/",
)

RESOURCES = (
    Field("cpu_pct", unit="%"),
    Field("ram_used", unit="bytes"),
    Field("ram_total", unit="bytes"),
    Field("gpu_pct", unit="%", meaning="mean use of the visible GPUs"),
    Field("vram_active_bytes", unit="bytes", meaning="in live tensors of this process"),
    Field("vram_allocated_bytes", unit="bytes", meaning="held by this process's allocator"),
    Field("vram_total", unit="bytes"),
    Field("vram_spill", unit="bytes", meaning="held beyond what is physically there"),
)

EPOCH = kind(
    "epoch",
    "epoch",
    "one finished epoch",
    Field("epoch", "count", meaning="completed epochs, from 1"),
    Field("total", "count", meaning="epochs of the whole run"),
    Field("duration_s", "amount", "s"),
    FREE_METRICS,
    nested("resources", "object", "the machine at its end", *RESOURCES),
    Field("gpus", "list", meaning="each GPU at its end, with fields of `gpu`"),
)

METRICS = kind("metrics", "step", "free metrics of one step", FREE_METRICS, dense=True)

MOE = kind(
    "moe",
    "step",
    "router health of a mixture of experts",
    series("aux_loss", meaning="load-balancing loss"),
    series("z_loss", meaning="router z-loss"),
    series("expert_utilization", meaning="share of experts in use, 0 to 1"),
    series("load_imbalance", meaning="largest load over the mean, from 1"),
    series("active_experts", "experts"),
    series("max_expert_fraction", meaning="share of the busiest expert"),
    series("min_active_expert_fraction", meaning="least share of one in use"),
    series("load_cv", meaning="coefficient of variation of the load"),
    series("router_entropy"),
    series("router_confidence"),
    dense=True,
    prefix="moe/",
)

EXPERTS = kind(
    "experts",
    "step",
    "how each layer's router shared its tokens out",
    Field("layers", "list", meaning="names of the layers"),
    Field("load", "list", meaning="of each layer, each expert's share of the assignments"),
    Field("top_k", "count", meaning="experts for each token"),
)

PHASES = kind(
    "phases",
    "step",
    "where the time of some steps went",
    Field("steps", "count", meaning="steps covered, ending at `step`"),
    Field("wall_ms", "amount", "ms", "mean time of a step"),
    series("m", "ms", "`phase/<name>`: mean time of a step", type="object"),
    Field("ideal_ms", "amount", "ms", "time of such a step at the speed of light"),
    Field(
        "clock", "text", meaning="whose clock timed them, where not the host's", choices=("gpu",)
    ),
    Field("host_ms", "object", "ms", "the host's own times, by phase"),
    Field("host_bound", "amount", meaning="share of steps in which the GPU waited for the host"),
)

SPAN = kind(
    "span",
    "time",
    "one long phase; `t` is its end",
    Field("name", "text"),
    Field("start", "number", "s", "Unix time"),
    Field("duration_ms", "amount", "ms"),
    Field("step", "count"),
)

SOL = kind(
    "sol",
    "none",
    "speed-of-light estimate: the fastest the hardware allows",
    *numbers("blocks", "lm_head", "attention", unit="FLOP/token"),
    *numbers("tps", unit="tokens/s"),
    *numbers("tf32_peak", "bf16_peak", "fp16_peak", "fp8_peak", "fp4_peak", unit="TFLOP/s"),
    *numbers("fp32_peak", "measured_peak", unit="TFLOP/s"),
    Field(
        "useful_tps",
        unit="tokens/s",
        meaning="the model's own work, without what is computed again",
    ),
    Field("dtype", "text"),
    Field("lm_head_dtype", "text", meaning="where it differs"),
    Field("attention_dtype", "text", meaning="where it differs"),
    Field("device", "text"),
    Field("world_size"),
    Field("peak_clock", unit="MHz"),
    Field("source", "text", meaning="where the peaks come from"),
    Field("note", "text"),
)

DATASET = kind(
    "dataset",
    "none",
    "one data split",
    Field("split", "text"),
    Field("files", "count"),
    Field("names", "list", meaning="paths of the files"),
    Field("tokens", "count", "tokens"),
    Field("file_index", "count", meaning="where reading stands"),
    Field("chunk_index", "count", meaning="where reading stands"),
    Field("seed", "count"),
)

DATA = kind(
    "data",
    "none",
    "batches that a watched data loader gave; identities are sampled by their own value",
    Field("name", "text", meaning="the split"),
    Field("guessed", "flag", meaning="the split follows from what the training did with it"),
    Field("epoch", "count", meaning="passes over the loader, from 1"),
    Field("dataset", "text", meaning="equal for loaders of one dataset"),
    Field("dataset_samples", "count"),
    Field("sampler", "text", meaning="its class"),
    Field("workers", "count", meaning="processes that load"),
    Field("batches", "count"),
    Field("samples", "count"),
    Field("read_batches", "count", meaning="batches whose content was read"),
    Field("indices", "list", meaning="indices of samples in the dataset, in their order"),
    Field("index_bits", "count", meaning="zero bits at the end of the hash of each index"),
    Field("hashes", "list", meaning="hashes of the content of samples, in their order"),
    Field("hash_bits", "count", meaning="zero bits at the end of each hash"),
    Field("hash_indices", "list", meaning="the index of each sample of `hashes`"),
    Field("hash_labels", "list", meaning="the label of each sample of `hashes`"),
    Field(
        "orders",
        "list",
        meaning="batches and samples of the epoch so far, and a digest of their order",
    ),
    Field("labels", "object", meaning="label to number of samples"),
    Field("labelled_batches", "count", meaning="batches of 8 samples or more with labels"),
    Field("one_class_batches", "count", meaning="those of them with one label only"),
    nested(
        "targets",
        "object",
        "spread of the targets so far, of inputs and targets in pairs",
        Field("samples", "count"),
        Field("classes", "count", meaning="values of whole targets"),
        Field("majority", "amount", meaning="share of the most frequent class"),
        Field("entropy", meaning="nats that the best constant answer costs"),
        Field("variance", meaning="of elements around the mean at their place"),
    ),
    nested(
        "association",
        "object",
        "whether near inputs have near targets, so far",
        Field("batches", "count"),
        Field("correlation", meaning="of distances, without bias"),
        Field("error", meaning="its standard error"),
        Field("nearest", meaning="how much nearer the target of the nearest input is"),
        Field("nearest_error", meaning="its standard error"),
    ),
    nested(
        "telling",
        "object",
        "input features with one value for each class, or equal to a target",
        Field("samples", "count"),
        Field("classes", "count", meaning="0 for a regression"),
        Field("features", "list", meaning="places in a flattened sample"),
    ),
    Field("label_range", "list", meaning="the smallest and the largest label so far"),
    Field("constant_features", "count", meaning="input features with one value in all samples"),
    Field("features", "count", meaning="input features that were compared"),
    Field("nonfinite_samples", "count", meaning="samples with values that are not finite"),
    Field("nonfinite_at", "list", meaning="indices of the first of them"),
    Field("constant_samples", "count", meaning="samples of which all values are equal"),
    Field("constant_at", "list", meaning="indices of the first of them"),
    Field("mean", meaning="of the inputs"),
    Field("std", meaning="of the inputs"),
    Field("padding", "amount", meaning="share of positions that are padding"),
    nested(
        "lengths",
        "object",
        "of sequences, without padding",
        Field("mean"),
        Field("up_to", "object", meaning="power of two to number of sequences"),
    ),
    Field("on_device", "count", meaning="batches with tensors on a device, which are not read"),
    Field("ended", "flag", meaning="the epoch ended with this record"),
    Field("complete", "flag", meaning="the loader was exhausted"),
    Field("earlier", "list", meaning="samples of the epoch that the attempt before did not finish"),
    Field("earlier_steps", "list", meaning="the step at which each of them was recorded"),
    Field("earlier_bits", "count", meaning="zero bits at the end of their hashes"),
    Field("earlier_by", "text", choices=("index", "content")),
)

ABS_MAXES = kind(
    "abs-maxes",
    "step",
    "largest absolute values",
    series("values", meaning="tensor name to value", type="object"),
    prefix="abs_max/",
    dense=True,
)

TRAINING = (STEP, EVAL, EPOCH, METRICS, MOE, EXPERTS, PHASES, SPAN, SOL, DATASET, DATA, ABS_MAXES)
