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

const OPERATOR = /[\s)][-+*/]|[-+*/]\s|^[-("`]/;
const CALL = /(?:^|[\s(-])(?:ema|mean|abs|log|log10|exp|sqrt|min|max|diff|cumsum)\(/;

/** Whether the server has to compute a name; a metric of exactly that name wins over the formula. */
export function isFormula(name: string): boolean {
  return OPERATOR.test(name) || CALL.test(name);
}

/** The names and formulas of a chart, each once, with patterns replaced by the metrics that they match. */
export function expandPatterns(series: readonly string[], metrics: readonly string[]): readonly string[] {
  const expanded = series.flatMap((text) => {
    if (!/[*?]/.test(text) || isFormula(text) || metrics.includes(text)) return [text];
    const pattern = new RegExp(`^${text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`);
    return metrics.filter((name) => pattern.test(name));
  });
  return [...new Set(expanded)];
}

export function titleOf({ title, series }: ChartSpec): string {
  return title ?? series.join(", ");
}
