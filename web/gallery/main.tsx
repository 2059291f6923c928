import { render } from "preact";
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import "../src/theme.css";
import "../src/chart/chart.css";
import "../src/ui/ui.css";
import "./gallery.css";
import { Segmented } from "../src/ui/segmented.tsx";
import { Controls } from "./controls.tsx";
import { Lines } from "./lines.tsx";
import { Others } from "./others.tsx";

function Gallery(): JSX.Element {
  const [theme, setTheme] = useState<"system" | "light" | "dark">("system");
  const choose = (next: "system" | "light" | "dark"): void => {
    setTheme(next);
    if (next === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = next;
  };
  return (
    <>
      <header>
        <h1>Gallery</h1>
        <Segmented label="Theme" value={theme} onChange={choose}
          choices={[{ value: "system", label: "System" }, { value: "light", label: "Light" }, { value: "dark", label: "Dark" }]} />
      </header>
      <section><Lines /></section>
      <section><h2>Other charts</h2><Others /></section>
      <section><h2>Controls</h2><Controls /></section>
    </>
  );
}

render(<Gallery />, document.querySelector("#gallery")!);
