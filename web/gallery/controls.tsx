/** The controls. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { assignSlots, PALETTE, slotCss } from "../src/chart/index.ts";
import { Dialog } from "../src/ui/dialog.tsx";
import { Empty } from "../src/ui/empty.tsx";
import { compileFilter } from "../src/ui/filter.ts";
import { Menu } from "../src/ui/menu.tsx";
import { SearchBox } from "../src/ui/search-box.tsx";
import { Segmented } from "../src/ui/segmented.tsx";
import { ShortcutSheet, useShortcuts } from "../src/ui/shortcuts.tsx";
import type { Shortcut } from "../src/ui/shortcuts.tsx";
import { Slider } from "../src/ui/slider.tsx";
import { Splitter } from "../src/ui/splitter.tsx";
import { Tabs } from "../src/ui/tabs.tsx";
import { createToasts, ToastList } from "../src/ui/toast.tsx";
import { VirtualList } from "../src/ui/virtual-list.tsx";
import { Card } from "./card.tsx";

const NAMES = Array.from({ length: 1000 }, (_, index) => `gpt2-124m/lr${["3e-4", "6e-4", "1e-3"][index % 3]}-seed${index}`);

export function Controls(): JSX.Element {
  return (
    <div class="grid is-three">
      <Runs />
      <Buttons />
      <Card title="Panes and palette">
        <Panes />
        <div class="palette">
          {PALETTE.map((_, slot) => <i key={slot} style={{ background: slotCss(slot) }} title={`slot ${slot}`} />)}
        </div>
        <Empty title="No histograms yet" code={'run.log_histogram("weights", values, step)'}>Log one to see it here.</Empty>
      </Card>
    </div>
  );
}

function Runs(): JSX.Element {
  const [query, setQuery] = useState("");
  const shown = useMemo(() => NAMES.filter(compileFilter(query)), [query]);
  const slots = useMemo(() => assignSlots(NAMES.slice(0, 36)), []);
  return (
    <Card title="1000 runs" note="virtual list, filter">
      <SearchBox label="Filter runs" query={query} count={`${shown.length}`} onChange={setQuery} />
      <div class="runs">
        <VirtualList label="Runs" count={shown.length} rowHeight={26} keyOf={(index) => shown[index]!} row={(index) => (
          <div class="run"><i class="chart-swatch is-square" style={{ "--swatch": slotCss(slots.get(shown[index]!) ?? index) }} /><span>{shown[index]}</span><b>{(2.7 + (index % 37) / 60).toFixed(4)}</b></div>
        )} />
      </div>
    </Card>
  );
}

function Buttons(): JSX.Element {
  const toasts = useMemo(createToasts, []);
  const [tab, setTab] = useState("charts");
  const [axis, setAxis] = useState<"step" | "tokens" | "wall">("step");
  const [amount, setAmount] = useState(0.6);
  const [open, setOpen] = useState<"none" | "dialog" | "sheet">("none");
  const shortcuts = useMemo((): Shortcut[] => [
    { key: "?", group: "Page", text: "This sheet", run: () => setOpen("sheet") },
    { key: "/", group: "Page", text: "Search", run: () => document.querySelector<HTMLInputElement>("input[type=search]")?.focus() },
    { key: "t", group: "Page", text: "Light, dark", run: () => toasts.show("Theme changed") },
    { key: "ArrowLeft", group: "Chart", text: "Earlier value", run: () => undefined },
    { key: "0", group: "Chart", text: "Whole range", run: () => undefined },
  ], [toasts]);
  useShortcuts(shortcuts);
  return (
    <Card title="Controls">
      <Tabs label="Panels" panelId="panel" active={tab} onChange={setTab}
        tabs={[{ id: "overview", label: "Overview" }, { id: "charts", label: "Charts" }, { id: "system", label: "System" }, { id: "log", label: "Log" }]} />
      <div id="panel" role="tabpanel" class="stack">
        <Segmented label="x axis" value={axis} onChange={setAxis}
          choices={[{ value: "step", label: "Step" }, { value: "tokens", label: "Tokens" }, { value: "wall", label: "Wall" }]} />
        <Slider label="Smoothing" min={0} max={0.99} step={0.01} value={amount} text={amount.toFixed(2)} onChange={setAmount} />
        <div class="row">
          <button type="button" class="button is-primary" onClick={() => toasts.show("View copied to the clipboard", "good")}>Toast</button>
          <button type="button" class="button" onClick={() => setOpen("dialog")}>Dialog</button>
          <button type="button" class="button" onClick={() => setOpen("sheet")}>Shortcuts</button>
          <button type="button" class="button is-quiet">norm</button>
          <Menu label="Group by" items={[
            { label: "config.lr", isOn: true, hint: "3 values", run: () => undefined },
            { label: "config.seed", isOn: false, hint: "5 values", run: () => undefined },
            "divider",
            { label: "No grouping", run: () => undefined },
          ]}>Group ▾</Menu>
        </div>
      </div>
      <Dialog title="Rename run" isOpen={open === "dialog"} onClose={() => setOpen("none")}>
        <p class="note">The folder keeps its name; only the label changes.</p>
        <div class="row"><button type="button" class="button is-primary" onClick={() => setOpen("none")}>Rename</button></div>
      </Dialog>
      <ShortcutSheet shortcuts={shortcuts} isOpen={open === "sheet"} onClose={() => setOpen("none")} />
      <ToastList toasts={toasts} />
    </Card>
  );
}

function Panes(): JSX.Element {
  const [size, setSize] = useState(120);
  return (
    <div class="panes">
      <div style={{ width: `${size}px` }}>runs</div>
      <Splitter label="Width of the list" size={size} min={60} max={220} onChange={setSize} />
      <div>charts</div>
    </div>
  );
}
