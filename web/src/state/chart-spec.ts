/** What a chart draws: metrics, patterns and formulas, and along what. */

export interface ChartSpec {
  /** Names of metrics, patterns such as `eval/*`, or formulas such as `train/loss - eval/loss`. */
  readonly series: readonly string[];
  readonly title?: string | null;
  /** Null follows the control bar: else a kind of x, or a metric's name. */
  readonly x?: string | null;
  readonly log_y?: boolean;
  readonly limits?: readonly [number | null, number | null] | null;
}
