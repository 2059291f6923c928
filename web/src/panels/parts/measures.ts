/** The figures that people judge a training by, and the ranges that are usual. */

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

const percent = (value: number): string => `${value.toFixed(1)}\u00a0%`;
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
