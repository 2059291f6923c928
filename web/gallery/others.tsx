/** All charts that are not line charts. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import {
  createBands, createBars, createHeatmap, createHistogram, createLanes, createParallel, createRidge, createScatter, createSparkline,
  createStacked, createStackedBar, formatBytes, formatNumber, percentilesOf,
} from "../src/chart/index.ts";
import type { Brush, Chart, ParallelItem, ParallelOptions, Range, Widget } from "../src/chart/index.ts";
import { isKept } from "../src/chart/parallel.ts";
import { Mount } from "../src/ui/mount.tsx";
import { Card, queue } from "./card.tsx";
import { distributions, lossCurve, normal, seeded, workerLanes } from "./data.ts";

function Drawn<Options>(props: { create: (root: HTMLElement, options: Options) => Chart<Options>; options: Options; height: number }): JSX.Element {
  return <Mount height={props.height} queue={queue} create={(root) => props.create(root, props.options)} update={(chart) => chart.update(props.options)} />;
}

function Built<Data>(props: { create: (root: HTMLElement, data: Data) => Widget<Data>; data: Data }): JSX.Element {
  return <Mount height="auto" create={(root) => props.create(root, props.data)} update={(widget) => widget.update(props.data)} />;
}

export function Others(): JSX.Element {
  return (
    <>
      <div class="grid is-three">
        <KeyMetrics />
        <Resources />
        <Memory />
      </div>
      <Histograms />
      <div class="grid">
        <Heat />
        <Experts />
      </div>
      <Compare />
      <Timeline />
      <Phases />
    </>
  );
}

function KeyMetrics(): JSX.Element {
  const curves = useMemo(() => [1, 2, 3, 4].map((seed) => lossCurve({ seed, num: seed === 3 ? 3000 : 120, noise: seed * 0.15 })), []);
  const names = ["loss", "grad norm", "tokens/s", "lr"];
  return (
    <Card title="Vital signs">
      <div class="vitals">
        {curves.map(({ x, y }, index) => (
          <div key={index} class="vital">
            <span class="note">{names[index]}</span>
            <b>{formatNumber(y.at(-1)!)}</b>
            <Drawn create={createSparkline} height={28} options={{ label: names[index]!, x, y, slot: index }} />
          </div>
        ))}
      </div>
    </Card>
  );
}

function Resources(): JSX.Element {
  return (
    <Card title="Resources">
      <Built create={createBars} data={[
        { label: "GPU 0", share: 0.97, text: "97%" },
        { label: "VRAM", share: 0.93, text: "74.4 / 80.0 GB", severity: "warning" },
        { label: "CPU", share: 0.34, text: "34%" },
        { label: "RAM", share: 0.99, text: "126.9 / 128.0 GB", severity: "critical" },
        { label: "Power", share: 0.88, text: "616 / 700 W" },
        { label: "PCIe", share: null, text: "—" },
      ]} />
    </Card>
  );
}

function Memory(): JSX.Element {
  const parts = [["weights", 15.2e9, 0], ["optimizer", 30.4e9, 1], ["activations", 22.1e9, 2], ["cache", 3.9e9, 4]] as const;
  return (
    <Card title="Memory by use">
      <Built create={createStackedBar} data={{
        total: 85_899_345_920,
        segments: parts.map(([label, value, slot]) => ({ label, value, text: formatBytes(value), slot })),
      }} />
    </Card>
  );
}

function Histograms(): JSX.Element {
  const all = useMemo(() => distributions(40), []);
  const [step, setStep] = useState(all[30]!.step);
  const selected = all.find((distribution) => distribution.step === step) ?? all[0]!;
  return (
    <div class="grid is-three">
      <Card title="blocks.3.weight" note="ridges">
        <Drawn create={createRidge} height={260} options={{ label: "blocks.3.weight", distributions: all, slot: 0, selectedStep: step, onStep: setStep }} />
      </Card>
      <Card title="blocks.3.weight" note="percentiles">
        <Drawn create={createBands} height={260} options={{
          label: "blocks.3.weight", percentiles: useMemo(() => percentilesOf(all), [all]), slot: 0, xFormat: "step", selectedX: step, onX: setStep,
        }} />
      </Card>
      <Card title="blocks.3.weight" note={`step ${step}`}>
        <Drawn create={createHistogram} height={260} options={{ label: "blocks.3.weight", distribution: selected, slot: 0, range: { min: -2.4, max: 2.4 } }} />
      </Card>
    </div>
  );
}

function Heat(): JSX.Element {
  const [rows, columns] = [16, 900];
  const values = useMemo(() => {
    const random = seeded(8);
    const made = Float64Array.from({ length: rows * columns }, (_, index) => {
      const [row, column] = [Math.floor(index / columns), index % columns];
      return Math.exp(-((row - 4 - column / 150) ** 2) / 18) + 0.12 * normal(random) + (row === 12 ? column / columns : 0);
    });
    made.fill(NaN, 9 * columns + 500, 9 * columns + 520);
    return made;
  }, []);
  return (
    <Card title="abs max by layer" note="over steps; red is nan">
      <Drawn create={createHeatmap} height={260} options={{
        label: "abs max", rowNames: Array.from({ length: rows }, (_, row) => `blocks.${row}`), values, ramp: "sequential",
        columns: { x: Float64Array.from({ length: columns }, (_, index) => index * 100), format: "step" },
      }} />
    </Card>
  );
}

function Experts(): JSX.Element {
  const [rows, columns] = [12, 16];
  const values = useMemo(() => {
    const random = seeded(18);
    return Float64Array.from({ length: rows * columns }, () => normal(random) * 0.4);
  }, []);
  return (
    <Card title="expert load" note="against even, layer × expert">
      <Drawn create={createHeatmap} height={260} options={{
        label: "expert load", rowNames: Array.from({ length: rows }, (_, row) => `layer ${row}`), values, ramp: "diverging",
        columns: { names: Array.from({ length: columns }, (_, column) => String(column)) },
      }} />
    </Card>
  );
}

function sweep(): ParallelItem[] {
  const random = seeded(31);
  return Array.from({ length: 80 }, (_, index) => {
    const lr = 10 ** (-4.5 + random() * 2);
    const batch = [32, 64, 128, 256][Math.floor(random() * 4)]!;
    const optimizer = ["adamw", "lion", "sgd"][Math.floor(random() * 3)]!;
    const loss = 2.6 + (Math.log10(lr) + 3.4) ** 2 * 0.8 + (optimizer === "sgd" ? 0.5 : 0) + random() * 0.2;
    const hours = index % 13 === 0 ? null : 2 + 200 / batch + random();
    return { id: `run-${index}`, label: `run-${index}`, slot: index % 12, values: [lr, batch, optimizer, random() * 0.2, hours, loss] };
  });
}

function Compare(): JSX.Element {
  const items = useMemo(sweep, []);
  const [brushes, setBrushes] = useState<ReadonlyMap<number, Brush>>(new Map([[5, { range: [0, 2.9], names: [] }]]));
  const options: ParallelOptions = {
    label: "sweep", items, colorAxis: 5, goal: "min", brushes, highlighted: null,
    axes: [{ name: "lr" }, { name: "batch" }, { name: "optimizer" }, { name: "dropout" }, { name: "hours", isMeasured: true }, { name: "eval/loss", isMeasured: true }],
    onBrush: setBrushes,
  };
  return (
    <div class="grid is-wide">
      <Card title="Parallel coordinates" note={`${items.filter((item) => isKept(item, brushes)).length} kept`}>
        <Drawn create={createParallel} height={300} options={options} />
      </Card>
      <Card title="Scatter">
        <Drawn create={createScatter} height={300} options={{
          label: "sweep", x: { name: "lr" }, y: { name: "eval/loss", isMeasured: true }, color: { name: "optimizer", isLowBest: false }, levels: [], note: "", highlighted: null,
          items: items.map(({ id, label, slot, values }) => ({ id, label, slot, x: values[0]!, y: values[5]!, color: values[2]! })),
        }} />
      </Card>
    </div>
  );
}

function Timeline(): JSX.Element {
  const lanes = useMemo(() => workerLanes(8), []);
  const [range, setRange] = useState<Range | null>(null);
  return (
    <Card title="Timeline" note="drag to zoom" tools={range !== null && <button type="button" class="button" onClick={() => setRange(null)}>Whole</button>}>
      <Drawn create={createLanes} height={250} options={{ label: "ranks", lanes, format: "relative", range, onZoom: setRange }} />
    </Card>
  );
}

function Phases(): JSX.Element {
  const [selected, setSelected] = useState<number | null>(null);
  const parts = ["data", "forward", "backward", "optimizer"].map((label, slot) => ({ label, slot }));
  const columns = useMemo(() => Array.from({ length: 24 }, (_, index) => ({
    min: index * 50, max: (index + 1) * 50, title: `steps ${index * 50}–${index * 50 + 49}`, values: [4 + index / 2, 40, 70, 9],
  })), []);
  return (
    <Card title="Phases" note="a click chooses a column">
      <Drawn create={createStacked} height={220} options={{ label: "phases", parts, columns, xFormat: "step", isShares: false, format: (value) => `${formatNumber(value)} ms`, selected, onColumn: setSelected }} />
    </Card>
  );
}
