/** What findings mean, and between which values a training is usually well; `docs/guides/findings.md` has the whole of it. */

export interface Meaning {
  /** What is behind it. */
  readonly means: string;
  readonly healthy: string;
}

export const MEANINGS: Readonly<Record<string, Meaning>> = {
  nonfinite: { means: "A value overflowed or was not defined: what follows from it is lost.", healthy: "Every value is a number; a loss scaler may skip a step now and then." },
  "step-anomaly": { means: "Steps went back, stood still or leapt: two loops may write one run.", healthy: "Steps grow at about one stride." },
  "clock-anomaly": { means: "The machine's clock was set, or it slept: rates across the gap are wrong.", healthy: "Time passes evenly." },
  "loss-spike": { means: "One batch, or a step that was too long, threw the loss off.", healthy: "Within eight widths of its noise." },
  divergence: { means: "The loss lost what it had gained and does not come back by itself.", healthy: "Back at its best level soon after a bump." },
  "never-fell": { means: "Nothing has been learned: gradients may not reach the weights, or labels do not fit.", healthy: "Lower after some hundred points." },
  plateau: { means: "The loss no longer falls by more than its noise.", healthy: "Still falling, or the schedule is at its end." },
  "gradient-explosion": { means: "The gradient is many times longer than usual: one step can undo much.", healthy: "Within eight times the usual norm." },
  "gradient-acceleration": { means: "The norm grows along a line: it often ends in an explosion.", healthy: "No lasting slope." },
  "gradient-vanishing": { means: "Next to no gradient is left, though the loss is not low.", healthy: "Above 3 % of the usual norm." },
  "always-clipped": { means: "The clipping limit, not the gradient, sets the length of every step.", healthy: "Norms mostly below the limit." },
  "no-warmup": { means: "Full steps were taken before the optimizer knew the scale of the gradients.", healthy: "A rise of the rate over 1 to 5 % of the steps." },
  "lr-too-high": { means: "At the peak of the rate the loss rises instead of falling.", healthy: "The loss falls at the peak too." },
  overfitting: { means: "Training still improves while evaluation worsens: the data is being learned by heart.", healthy: "A gap of some per cent that does not grow." },
  "eval-flat": { means: "Evaluation does not move: it may not see the trained model.", healthy: "It moves from one evaluation to the next." },
  "eval-at-chance": { means: "The model guesses.", healthy: "Clearly above one in the number of classes." },
  "too-good": { means: "Nobody learns that fast: the answer may be among the inputs.", healthy: "Learned by and by." },
  "repeated-data": { means: "The loss falls off a cliff where an epoch ends: samples are recognised.", healthy: "Small drops at the end of an epoch." },
  "dead-layer": { means: "A layer gets no gradient: nothing in it is learned.", healthy: "Every trained layer has a gradient." },
  "frozen-layer": { means: "A layer's weights do not change.", healthy: "Every trained layer moves." },
  "update-ratio": { means: "Steps are far too long or too short for the weights they change.", healthy: "About a thousandth of the weights a step." },
  "weight-norm": { means: "Weights grow or vanish steadily.", healthy: "Norms level off." },
  "throughput-drop": { means: "The run has become slower than it was.", healthy: "Near its own median; saves and evaluations do not count." },
  "input-bound": { means: "The device waits for data.", healthy: "Less than a tenth of a step." },
  straggler: { means: "All ranks wait for one at every step.", healthy: "Ranks within some per cent of each other." },
  "gpu-throttling": { means: "A GPU lowers its clock to stay within heat or power.", healthy: "Full clock; at the power limit a tenth or two less." },
  "memory-creep": { means: "Something is kept that should be let go of.", healthy: "Flat after some minutes; a sawtooth is fine." },
  "memory-full": { means: "At this pace memory runs out and the run is killed.", healthy: "No growth towards the limit." },
  "low-sol": { means: "The hardware could do the same work much faster.", healthy: "60 % of the speed of light and more; 80 % is excellent." },
  "replica-drift": { means: "Copies of the model that should be equal no longer are.", healthy: "Equal but for rounding." },
  "moe-imbalance": { means: "Some experts do most of the work.", healthy: "The busiest below 2.5 times an even share; more where there are many." },
  "moe-collapse": { means: "Most experts are never chosen: the model has become a smaller one.", healthy: "At least 80 % of the experts in use." },
  "out-of-memory": { means: "An allocation failed and the loop went on without it.", healthy: "Room left at the peak of a step." },
  "alert-failed": { means: "A message about this run did not reach its address.", healthy: "Every alert arrives." },
  "silent-run": { means: "Nothing has been recorded for longer than ever before: the run may hang.", healthy: "Records as often as usual." },
};

export type Judgement = "good" | "warning" | "critical";

/** A figure that people judge a training by, with the ranges that are usual. */
export interface Measure {
  readonly label: string;
  readonly names: RegExp;
  readonly healthy: string;
  readonly worrying: string;
  readonly format: (value: number) => string;
  /** Null where it depends on the model. */
  readonly judge: (value: number) => Judgement | null;
}

const percent = (value: number): string => `${value.toFixed(1)}%`;
const plain = (value: number): string => value.toFixed(2);

function above(good: number, worrying: number): Measure["judge"] {
  return (value) => (value >= good ? "good" : value >= worrying ? "warning" : "critical");
}

function below(good: number, worrying: number): Measure["judge"] {
  return (value) => (value <= good ? "good" : value <= worrying ? "warning" : "critical");
}

export const MEASURES: readonly Measure[] = [
  { label: "gradient norm", names: /^(train\/norm|grad_norm|train\/grad_norm)$/, healthy: "in a steady range; language models 0.2 to 1", worrying: "8 times the usual, or ever growing", format: plain, judge: (value) => (Number.isFinite(value) ? null : "critical") },
  { label: "speed of light", names: /(^|\/)sol$/, healthy: "60 % and more", worrying: "below 60 %; below 25 % something stands in the way", format: percent, judge: above(60, 25) },
  { label: "GPU utilisation", names: /^gpu\/\d+\/gpu_util$/, healthy: "80 % and more", worrying: "below 65 %: it waits for data or the host", format: percent, judge: above(80, 65) },
  { label: "GPU temperature", names: /^gpu\/\d+\/temperature$/, healthy: "below 80 °C", worrying: "near the temperature at which it slows down", format: (value) => `${value.toFixed(0)} °C`, judge: below(80, 87) },
  { label: "wait for data, of a step", names: /^phase\/data$/, healthy: "below a tenth of a step", worrying: "a quarter of a step", format: (value) => `${value.toFixed(1)} ms`, judge: () => null },
  { label: "experts in use", names: /^moe\/expert_utilization$/, healthy: "0.8 to 1", worrying: "below 0.7; below 0.5 many are never chosen", format: plain, judge: above(0.8, 0.5) },
  { label: "load imbalance", names: /^moe\/load_imbalance$/, healthy: "1 to 2.5; with many experts up to half of experts / top-k", worrying: "near experts / top-k: all tokens choose alike", format: plain, judge: (value) => (value <= 2.5 ? "good" : null) },
  { label: "router's auxiliary loss", names: /^moe\/aux_loss$/, healthy: "0.001 to 0.1", worrying: "above 1", format: (value) => value.toPrecision(2), judge: below(0.1, 1) },
  { label: "router's z loss", names: /^moe\/z_loss$/, healthy: "0.0001 to 0.01", worrying: "above 0.1", format: (value) => value.toPrecision(2), judge: below(0.01, 0.1) },
];
