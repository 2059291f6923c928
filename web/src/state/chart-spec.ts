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
export function expandPatterns(
  series: readonly string[],
  metrics: readonly string[],
): readonly string[] {
  const expanded = series.flatMap((text) => {
    if (!/[*?]/.test(text) || isFormula(text) || metrics.includes(text)) return [text];
    return metrics.filter((name) => isMatch(text, name));
  });
  return [...new Set(expanded)];
}

/** Whether a pattern matches a name. After a mismatch only the last `*` takes more, so no pattern takes for ever. */
function isMatch(pattern: string, name: string): boolean {
  let [at, star, taken] = [0, -1, 0];
  for (let index = 0; index < name.length; ) {
    if (pattern[at] === "*") [star, taken] = [at++, index];
    else if (pattern[at] === "?" || pattern[at] === name[index]) [at, index] = [at + 1, index + 1];
    else if (star >= 0) [at, index] = [star + 1, ++taken];
    else return false;
  }
  return /^\**$/.test(pattern.slice(at));
}

/** What is wrong with the first series that no run in the charts has, be it by its name, its role or the end of its name; null where all have one, or nothing was logged. */
export function missingText(
  series: readonly string[],
  metrics: readonly { readonly name: string; readonly role: string | null }[],
): string | null {
  const names = metrics.map(({ name }) => name);
  const isKnown = (text: string): boolean =>
    isFormula(text) ||
    metrics.some(({ name, role }) => role === text || name.endsWith(`/${text}`)) ||
    expandPatterns([text], names).some((one) => names.includes(one));
  const missing = series.find((text) => !isKnown(text));
  if (missing === undefined || names.length === 0) return null;
  if (/[*?]/.test(missing)) return `No metric matches \`${missing}\`.`;
  const near = names.toSorted(
    (one, other) => distance(missing, one) - distance(missing, other),
  )[0]!;
  const isNear =
    near.includes(missing) || distance(missing, near) <= Math.max(2, missing.length / 3);
  return `No run in the charts has a metric \`${missing}\`.${isNear ? ` Did you mean \`${near}\`?` : ""}`;
}

/** How many characters have to be added, removed or replaced. */
function distance(one: string, other: string): number {
  let row = [...other, ""].map((_, at) => at);
  for (let at = 0; at < one.length; at++) {
    const next = [at + 1];
    for (let to = 0; to < other.length; to++)
      next.push(
        Math.min(next[to]! + 1, row[to + 1]! + 1, row[to]! + Number(one[at] !== other[to])),
      );
    row = next;
  }
  return row[other.length]!;
}

export function titleOf({ title, series }: ChartSpec): string {
  return title ?? series.join(", ");
}
