/** A section with one line chart and its downloads. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";

import { createLineChart } from "../../chart/index.ts";
import type { LineChart, LineOptions, Series } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import { download } from "../../ui/download.ts";
import { Menu } from "../../ui/menu.tsx";
import { Mount } from "../../ui/mount.tsx";
import { Section } from "./section.tsx";

export interface LineSectionProps {
  readonly page: Page;
  readonly title: string;
  readonly note?: string | undefined;
  readonly series: readonly Series[];
  readonly options: Partial<LineOptions>;
  readonly height?: number;
  readonly isWide?: boolean;
}

export function LineSection({ page, title, note, series, options, height = 180, isWide = false }: LineSectionProps): JSX.Element {
  const chart = useRef<LineChart | null>(null);
  const before = useRef<{ readonly series: readonly Series[]; readonly text: string }>({ series: [], text: "" });
  const all: Partial<LineOptions> = { title, sync: page.sync, ...options };
  const show = (handle: LineChart): void => {
    const text = JSON.stringify(all);
    const isSame = before.current.series.length === series.length
      && series.every(({ id, data, label }, index) => before.current.series[index]?.data === data && before.current.series[index].id === id && before.current.series[index].label === label);
    if (text !== before.current.text) handle.setOptions(all);
    if (!isSame) handle.setSeries(series);
    before.current = { series, text };
  };
  // One dot says little, and nothing of whether more is to come.
  const isLone = series.length > 0 && series.every(({ data }) => (data.kind === "raw" ? data.x : data.lastX).length < 2);
  const save = async (): Promise<void> => {
    if (chart.current !== null) download(`${title}.png`, await chart.current.png());
  };
  const tools = (
    <Menu label={`Downloads of ${title}`} items={[
      { label: "Download PNG", run: () => void save() },
      { label: "Download SVG", run: () => download(`${title}.svg`, chart.current?.svg() ?? "", "image/svg+xml") },
    ]}>⋯</Menu>
  );
  return (
    <Section title={title} note={isLone ? "only one record" : note} tools={tools} isWide={isWide}>
      <Mount height={height} queue={page.lazy} create={(root) => {
        before.current = { series: [], text: "" };
        chart.current = createLineChart(root, all);
        return chart.current;
      }} update={show} />
    </Section>
  );
}
