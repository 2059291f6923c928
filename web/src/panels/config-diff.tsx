/** Configurations of several runs side by side. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { slotCss } from "../chart/index.ts";
import { configValue, flatConfig, valueText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import type { RunRow } from "../wire.ts";
import "./config.css";

export interface ConfigRow {
  readonly key: string;
  /** One per run; null where the run has no such key. */
  readonly texts: readonly (string | null)[];
  readonly isSame: boolean;
}

type Config = Readonly<Record<string, unknown>>;

/** Every key of any of the configurations with its value in each. */
export function configRows(configs: readonly (Config | null)[]): readonly ConfigRow[] {
  const keys = new Set(configs.flatMap((config) => flatConfig(config ?? {}).map(([key]) => key)));
  return [...keys].map((key) => {
    const texts = configs.map((config) => {
      const value = configValue(config, key);
      return value === undefined ? null : valueText(value);
    });
    return { key, texts, isSame: texts.every((text) => text === texts[0]) };
  });
}

/** The table of Compare has more runs, with a column for each key. */
const MOST_RUNS = 4;

export interface ConfigDiffProps {
  readonly page: Page;
  readonly rows: readonly RunRow[];
  readonly isDiffOnly: boolean;
  readonly matches: (text: string) => boolean;
}

export function ConfigDiff({ page, rows: given, isDiffOnly, matches }: ConfigDiffProps): JSX.Element {
  const rows = given.slice(0, MOST_RUNS);
  const table = useMemo(() => configRows(rows.map(({ config }) => config)), [given]);
  const shown = table.filter(({ key, texts, isSame }) => !(isDiffOnly && isSame) && matches(`${key} ${texts.join(" ")}`));
  if (rows.length < 2) return <Empty title="One run is not enough to compare">Show more runs in the list to compare their configs.</Empty>;
  if (shown.length === 0) {
    return table.every(({ isSame }) => isSame) ? <Empty title="No differences">These runs have the same config.</Empty>
      : <Empty title="No key matches">Clear the search to see the keys that differ.</Empty>;
  }
  return (
    <div class="config-diff" role="region" aria-label="Configs of the runs" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">key</th>
            {rows.map(({ id }) => (
              <th key={id} scope="col"><span class="config-run"><i class="run-dot" style={{ background: slotCss(page.runs.slot(id)) }} /><span>{page.runs.label(id)}</span></span></th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(({ key, texts, isSame }) => (
            <tr key={key}>
              <th scope="row">{key}</th>
              {texts.map((text, index) => (
                <td key={rows[index]!.id} class={text === null ? "is-unset" : !isSame && text !== texts[0] ? "is-other" : ""}>{text ?? "not set"}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
