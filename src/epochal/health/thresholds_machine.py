"""The numbers by which machine, layers, experts and advice are judged, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class MachineThresholds:
    """What counts as wrong; shares are of 1, windows in records unless a name says otherwise."""

    # -- throughput-drop --------------------------------------------------------------------------
    # Compilation, caches and the first full queue of a GPU make the first records untypical.
    throughput_skip: int = 5
    # Thirty records give a median that strays by a quarter of a deviation.
    throughput_baseline_min: int = 30
    throughput_baseline: int = 400
    # A fifth less costs an hour in five, and is beyond what clocks and batches vary by.
    throughput_share: float = 0.8
    # A background save slows a run for ten or twenty seconds; half a minute is no longer one.
    throughput_recent_s: float = 30.0
    # Slow loggers: so many records in a row, since an evaluation slows one or two.
    throughput_recent_min: int = 3
    # Of a long stretch three quarters must be slow, of a short one all.
    throughput_slow_share: float = 0.75
    # Once open, it is over when less than this share is slow.
    throughput_release_share: float = 0.4

    # -- input-bound ------------------------------------------------------------------------------
    # A well-fed loop waits for data a few percent of a step; a quarter is worth more workers.
    input_wait_share: float = 0.25
    input_wait_grave: float = 0.6
    # The first batches wait for workers to start: in the first record of phases, so many steps
    # without the longest wait must have waited for most of their time.
    input_first_steps: int = 10
    input_first_share: float = 0.8
    # Without timed phases: a GPU that idles a third of the time...
    input_gpu_util_pct: float = 65.0
    # ...beside CPUs that have nothing left to give. (A process at 100 % of one core proves little:
    # waiting for a GPU looks the same.)
    input_cpu_pct: float = 90.0
    # At rest it is not starved: nothing runs, or something that is not for GPUs.
    input_gpu_rest_pct: float = 3.0
    # One minute of telemetry: an evaluation or a save is shorter, or does not load the CPUs.
    input_records: int = 6
    # Without GPU figures: steps that are followed by a pause longer than the step itself.
    input_pause_share: float = 0.5
    input_pause_records: int = 30

    # -- straggler --------------------------------------------------------------------------------
    # Ranks on equal machines differ by a few percent; all wait for the slowest at every step.
    straggler_share: float = 1.2
    straggler_window: int = 20
    straggler_phases: int = 5  # each the mean of fifty steps
    straggler_min: int = 10
    # And the slowest must stand out from how much the others differ among themselves.
    straggler_deviations: float = 4.0

    # -- gpu-throttling ---------------------------------------------------------------------------
    # Under heat the clock is cut in steps of a few percent: any lasting loss is worth a look.
    throttle_thermal_share: float = 0.05
    # Data-centre GPUs run dense work at their power limit by design, a tenth or two below the
    # greatest clock; only more than that is a limit set low or a supply that fails.
    throttle_power_share: float = 0.3
    throttle_other_share: float = 0.15
    # Or a loss like this against the clock the same GPU held in this run before.
    throttle_fall_share: float = 0.15
    # Below this use the clock says nothing: an idle GPU lowers it by itself.
    throttle_min_util_pct: float = 20.0
    # One record of ten seconds may be a moment; two are not.
    throttle_lasting_s: float = 20.0
    throttle_baseline_min: int = 3

    # -- memory-creep -----------------------------------------------------------------------------
    # Six blocks of ten records each (ten minutes at first): collectors and caches breathe within.
    creep_window: int = 60
    # And six times as long, for leaks of a slow kind.
    creep_long_factor: int = 6
    creep_blocks: int = 6
    # Less than this is what allocators round by.
    creep_min_bytes: float = 64 * _MIB
    creep_share: float = 0.06
    # The floor must rise by several times what it swings within a block.
    creep_swing: float = 2.0
    # Growth that comes in jumps gains little in some blocks.
    creep_steady: float = 0.25
    # Caches that fill up do so ever more slowly.
    creep_lasting: float = 0.6
    # Imports, first batches and compilation take memory that stays.
    creep_skip_s: float = 120.0

    # -- memory-full ------------------------------------------------------------------------------
    # Three minutes of ten-second records.
    full_window: int = 18
    full_share: float = 0.01
    # However often a machine is read, less than this may be one large thing being loaded.
    full_lasting_s: float = 150.0
    # The time in which someone can still save and stop.
    full_soon_s: float = 1800.0
    full_very_soon_s: float = 300.0
    # Projections from far below the limit are guesses.
    full_from_share: float = 0.5
    # Linux starts to kill, or to swap, in the last percents of memory. GPUs are filled on purpose.
    full_ram_share: float = 0.95
    full_ram_grave: float = 0.98

    # -- silent-run -------------------------------------------------------------------------------
    # Less is not worth a note.
    silent_min_s: float = 45.0
    # Against the usual distance of records, and the longest pause that turned out well.
    silent_gaps: float = 10.0
    silent_longest: float = 2.5
    silent_min_records: int = 10
    # A first evaluation or save may be silent for minutes, but then the processes work. Where they
    # do nothing it is a warning at once; where that is not known, or they work, after so long.
    silent_warning_s: float = 600.0
    silent_unknown_s: float = 180.0
    silent_idle_pct: float = 5.0

    # -- low-sol ----------------------------------------------------------------------------------
    # 80 % of the speed of light is excellent; below 60 % something holds the hardware up.
    sol_share_pct: float = 60.0
    # Below this it is no longer a matter of tuning kernels.
    sol_grave_pct: float = 25.0
    sol_window: int = 50
    # Compilation and warm-up of the clocks.
    sol_skip: int = 20

    # -- replica-drift ----------------------------------------------------------------------------
    # What is equal on all ranks by construction (norms after the exchange) differs by rounding.
    drift_equal: float = 1e-5
    drift_apart: float = 1e-3
    drift_learn: int = 5
    drift_lasting: int = 5
    # Losses of ranks differ by their data; their means over a window may not. Deviations of a mean.
    drift_window: int = 20
    drift_deviations: float = 8.0
    drift_share: float = 0.003

    # -- layers -----------------------------------------------------------------------------------
    # Watched steps in a row. Zero-initialised branches get their first gradient a step or two late,
    # and an expert may go without tokens for some steps.
    dead_samples: int = 5
    # Beside the usual gradient of the other layers, this is nothing.
    dead_gradient_share: float = 1e-8
    # A ReLU layer is half to nine tenths zeros; this is a layer that says nothing.
    dead_activation_zeros: float = 0.995
    frozen_samples: int = 4
    # About 1e-3 is the textbook figure. Adam's first thousand steps reach several percent.
    update_ratio_high: float = 0.1
    update_ratio_low: float = 1e-5
    # A single layer may lag far behind the others, with a rate that falls from layer to layer.
    update_ratio_layer_low: float = 2e-6
    # The first steps of a warm-up are small in every run.
    update_skip_steps: int = 50
    update_samples: int = 5
    # Biases and scales start near zero, where any step is large against the norm.
    update_min_norm_share: float = 0.02
    # At the end of a schedule updates are small on purpose.
    update_lr_share: float = 0.3

    # -- weight-norm ------------------------------------------------------------------------------
    # Watched steps; weights of a healthy run grow like a root of time, ever slower.
    weight_window: int = 6
    # Doubling within a window, without slowing down, is not.
    weight_growth: float = 2.0
    # While the rate still rises, weights leave their initial size faster and faster.
    weight_growth_warmup: float = 3.0
    # A quarter of what it was, and still falling: decay has won over learning.
    weight_fall: float = 0.25
    # Norms that began this far below their later size were not initialised to mean anything.
    weight_from_share: float = 0.05

    # -- experts ----------------------------------------------------------------------------------
    # The load imbalance (most loaded over mean) cannot exceed experts/top-k, when every token
    # takes the same experts. So the bars are shares of that, and at least what is poor for few
    # experts.
    moe_imbalance_least: float = 3.0
    moe_imbalance_share: float = 0.8
    moe_imbalance_cap: float = 0.9
    moe_imbalance_grave: float = 0.95
    # With many experts that most is far away: 64 or 128 of them with 4 per token show 3 to 6 in
    # health, 128 with 8 per token twice that. So poor is two and a half times the experts per
    # token, from 10 on, and grave twice as much.
    moe_imbalance_many: float = 10.0
    moe_imbalance_per_choice: float = 2.5
    moe_imbalance_twice: float = 2.0
    # Once poor, it must fall by a tenth of the bar to be well again, or noise would open it anew.
    moe_imbalance_release: float = 0.9
    # Without knowing experts and top-k: beyond what 128 experts with 8 per token show in health.
    moe_imbalance_unknown: float = 13.0
    moe_utilization: float = 0.8
    moe_utilization_grave: float = 0.5
    moe_skip: int = 10  # routers start from random weights
    moe_recent: int = 5
    moe_window: int = 50
    # Nearly twice what it was within a few records, or half as much again in a steady climb.
    moe_doubling: float = 1.8
    moe_window_min: int = 20
    moe_climb: float = 1.5
    moe_climb_blocks: int = 5
    # Moves below this imbalance are between one healthy state and another.
    moe_move_floor: float = 1.8
    # The balancing loss is at its least when the load is even, and there it is its weight times
    # the layers: three times the least that was seen is far from even, whatever the weight.
    moe_aux_factor: float = 3.0
    # With half of the experts idle the others get twice the mean at least.
    moe_collapse_imbalance: float = 2.2
    # Entropy over ln(experts): a router that hardly doubts no longer explores.
    moe_entropy: float = 0.25

    # -- advice -----------------------------------------------------------------------------------
    advice_cooldown: int = 200
    # Of its peak: below it the schedule is at work already.
    advice_lr_share: float = 0.3
    # Points of the gradient norm: medians of fifty stray by a few percent of it, so that flat is
    # a change of less than a sixth.
    advice_flat_points: int = 50
    advice_flat_share: float = 0.15
    # And rising is more than noise makes of it.
    advice_rise_factor: float = 1.5
    # Points after a plateau was found: many end by themselves.
    advice_stuck_points: int = 200
    # A rate that moves by more than this meanwhile is in the hands of its schedule.
    advice_lr_moved: float = 0.03
    advice_fading_points: int = 60
    # A plateau is known for one some hundred points after it began.
    advice_fading_apart: int = 120
    # Gradients at less than half of what they were, while the loss has all but stopped.
    advice_fading_share: float = 0.5
    advice_guard_steps: int = 10
    advice_num_cuts: int = 2
    # Points after the second cut within which a loss that can be saved has begun to fall.
    advice_cut_points: int = 200
    # Loss still falling by a twentieth per ten points, when the rate stops rising.
    advice_room_share: float = 0.05
    advice_room_points: int = 10
    advice_room_factor: float = 1.5
