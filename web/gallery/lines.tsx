/** Line charts: the plain case and every hard one. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { aggregate, assignSlots, createLineChart, createSyncBus } from "../src/chart/index.ts";
import type { LineChart, LineOptions, Series, Smoothing, SyncBus } from "../src/chart/index.ts";
import { download } from "../src/ui/download.ts";
import { Menu } from "../src/ui/menu.tsx";
import { Mount } from "../src/ui/mount.tsx";
import { Segmented } from "../src/ui/segmented.tsx";
import { Slider } from "../src/ui/slider.tsx";
import { Card, queue } from "./card.tsx";
import { bucketed, lossCurve, seeded, withValues } from "./data.ts";

const NAMES = ["lr 3e-4, wd 0.1", "lr 6e-4, wd 0.1", "lr 1e-3, wd 0.1", "lr 3e-4, wd 0.01", "warmup 2000"];
const SLOTS = assignSlots(NAMES);

function LineCard(props: { title: string; note?: string; series: readonly Series[]; options?: Partial<LineOptions>; height?: number }): JSX.Element {
  const chart = useRef<LineChart | null>(null);
  const [log, setLog] = useState(props.options?.yKind ?? "linear");
  const [clips, setClips] = useState(props.options?.outliers === "clip");
  const options = { ...props.options, title: props.title, yKind: log, outliers: clips ? "clip" as const : "show" as const };
  const [initial] = useState(options);
  const save = async (): Promise<void> => {
    if (chart.current !== null) download(`${props.title}.png`, await chart.current.png());
  };
  const menu = (
    <Menu label={`Options of ${props.title}`} items={[
      { label: "Log y axis", isOn: log === "log", run: () => setLog(log === "log" ? "linear" : "log") },
      { label: "Ignore outliers", isOn: clips, run: () => setClips(!clips) },
      "divider",
      { label: "Download CSV", run: () => download(`${props.title}.csv`, chart.current?.csv() ?? "", "text/csv;charset=utf-8") },
      { label: "Download PNG", run: () => void save() },
      { label: "Download SVG", run: () => download(`${props.title}.svg`, chart.current?.svg() ?? "", "image/svg+xml") },
    ]}>⋯</Menu>
  );
  return (
    <Card title={props.title} note={props.note} tools={menu}>
      <Mount height={props.height ?? 240} queue={queue} create={(root) => (chart.current = createLineChart(root, initial))}
        update={(handle) => {
          handle.setOptions(options);
          handle.setSeries(props.series);
        }} />
    </Card>
  );
}

function fiveRuns(num: number): Series[] {
  return NAMES.map((name, index) => ({
    id: name,
    label: name,
    slot: SLOTS.get(name)!,
    data: lossCurve({ seed: index + 1, num, stride: 10, to: 2.7 + index * 0.12, noise: 0.1 }),
  }));
}

function named(label: string, slot: number, data: Series["data"]): Series {
  return { id: label, label, slot, data };
}

export function Lines(): JSX.Element {
  const bus = useMemo(createSyncBus, []);
  const [smoothing, setSmoothing] = useState<Smoothing>({ kind: "ema", amount: 0.9 });
  const runs = useMemo(() => fiveRuns(1200), []);
  return (
    <>
      <SmoothingBar smoothing={smoothing} onChange={setSmoothing} />
      <div class="grid">
        <LineCard title="train/loss" note="five runs, smoothed" series={runs} options={{ sync: bus, smoothing, baseline: NAMES[0]! }} height={280} />
        <LineCard title="train/loss, log x" note="the first steps have room" series={runs} options={{ sync: bus, xKind: "log", yKind: "log", smoothing }} height={280} />
      </div>
      <div class="grid is-three">
        <HardCases bus={bus} />
        <LiveCard bus={bus} />
      </div>
    </>
  );
}

function SmoothingBar({ smoothing, onChange }: { smoothing: Smoothing; onChange: (smoothing: Smoothing) => void }): JSX.Element {
  const value = smoothing.kind === "ema" ? smoothing.amount : smoothing.kind === "gaussian" ? smoothing.amount / 50 : 0;
  const set = (kind: Smoothing["kind"], amount: number): void => {
    if (kind === "none") onChange({ kind });
    else onChange(kind === "ema" ? { kind, amount: Math.min(0.999, amount) } : { kind, amount: amount * 50 });
  };
  return (
    <div class="bar">
      <Segmented label="Kind of smoothing" value={smoothing.kind} onChange={(kind) => set(kind, value || 0.9)}
        choices={[{ value: "none", label: "Raw" }, { value: "ema", label: "EMA" }, { value: "gaussian", label: "Gaussian" }]} />
      <Slider label="Smoothing" min={0} max={0.999} step={0.001} value={value} text={value.toFixed(2)} onChange={(amount) => set(smoothing.kind, amount)} />
    </div>
  );
}

function HardCases({ bus }: { bus: SyncBus }): JSX.Element {
  const cases = useMemo(() => {
    const long = lossCurve({ seed: 9, num: 200_000, noise: 0.1 });
    const spiked = withValues(long, { 120_000: 8.4 });
    const broken = withValues(lossCurve({ seed: 11, num: 600, stride: 20 }), { 200: NaN, 201: NaN, 202: NaN, 330: Infinity, 450: -Infinity });
    const short = lossCurve({ seed: 12, num: 300, stride: 20, start: 6000, from: 7, to: 2.5 });
    const outliers = withValues(lossCurve({ seed: 13, num: 900, stride: 10 }), { 300: 900, 301: 400, 640: -250 });
    const seeds = [1, 2, 3, 4, 5].map((seed) => lossCurve({ seed: 60 + seed, num: 240, stride: 50, to: 2.8 + seed * 0.06, noise: 0.12 }));
    const mean = aggregate(seeds, "std");
    const random = seeded(3);
    const memory = Float64Array.from({ length: 400 }, (_, index) => (index < 60 ? index / 60 : 1) * 71e9 + random() * 1.5e9);
    const hours = Float64Array.from({ length: 400 }, (_, index) => 1_794_700_000 + index * 90);
    const tokens = lossCurve({ seed: 21, num: 500, stride: 5_242_880 });
    return { spiked: bucketed(spiked, 700), broken, short, outliers, mean, memory, hours, tokens };
  }, []);
  const spread = { ...named("mean of 5 seeds", 2, { kind: "raw", x: cases.mean.x, y: cases.mean.mean }), spread: { low: cases.mean.low, high: cases.mean.high } };
  return (
    <>
      <LineCard title="spike" note="one step of 200 000" series={[named("loss", 0, cases.spiked)]} options={{ sync: bus }} />
      <LineCard title="not finite, and a late start" series={[named("nan, inf, −inf", 5, cases.broken), named("starts at 6000", 0, cases.short)]} options={{
        sync: bus,
        marks: [
          { x: 4000, kind: "finding", severity: "critical", label: "loss is nan for 3 steps" },
          { x: 3000, kind: "epoch", label: "epoch 1" },
          { x: 9000, kind: "epoch", label: "epoch 2" },
          { x: 8000, kind: "restart", label: "resumed at step 8000" },
        ],
        highlight: { min: 4000, max: 4400 },
      }} />
      <LineCard title="outliers" note="clipped" series={[named("loss", 3, cases.outliers)]} options={{ sync: bus, outliers: "clip" }} />
      <LineCard title="gpu/0/memory" note="wall clock, limit" series={[named("GPU 0", 6, { kind: "raw", x: cases.hours, y: cases.memory })]}
        options={{ xFormat: "wall", yFormat: "bytes", yAlways: [0], limits: [{ y: 85_899_345_920, label: "80 GB" }], hasLegend: false }} />
      <LineCard title="mean ± one deviation" series={[spread]} options={{ sync: bus }} />
      <LineCard title="loss by tokens" series={[named("loss", 4, cases.tokens)]} options={{ xFormat: "tokens" }} />
      <LineCard title="one point" series={[named("eval/accuracy", 1, { kind: "raw", x: Float64Array.of(100), y: Float64Array.of(0.5) })]} />
      <LineCard title="nothing yet" series={[]} />
      <LineCard title="thirty runs" note="colours, then dashes" series={useMemo(thirty, [])} options={{ sync: bus, smoothing: { kind: "gaussian", amount: 6 } }} />
    </>
  );
}

function thirty(): Series[] {
  const names = Array.from({ length: 30 }, (_, index) => `run-${String(index + 1).padStart(2, "0")}`);
  const slots = assignSlots(names);
  return names.map((name, index) => named(name, slots.get(name)!, lossCurve({ seed: 200 + index, num: 200, stride: 50, to: 2.4 + index * 0.05 })));
}

function LiveCard({ bus }: { bus: SyncBus }): JSX.Element {
  const whole = useMemo(() => lossCurve({ seed: 77, num: 4000, stride: 5 }), []);
  const [num, setNum] = useState(400);
  const [isLive, setLive] = useState(false);
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setInterval(() => setNum((before) => Math.min(4000, before + 10)), 250);
    return () => clearInterval(timer);
  }, [isLive]);
  const data: Series["data"] = { kind: "raw", x: whole.x.subarray(0, num), y: whole.y.subarray(0, num) };
  return (
    <div id="live">
      <LineCard title="grows" note={`${num} points`} series={[named("loss", 8, data)]} options={{ sync: bus }} height={204} />
      <button type="button" class="button" onClick={() => setLive(!isLive)}>{isLive ? "Stop" : "Grow"}</button>
    </div>
  );
}
