import { render } from "preact";

import "./theme.css";
import "./chart/chart.css";
import "./ui/ui.css";
import "./app/app.css";
import "./panels/panels.css";
import { App } from "./app/app.tsx";
import { createTheme } from "./app/theme.ts";
import { createArchiveSource, findArchive } from "./source/archive.ts";
import { createLiveSource } from "./source/live.ts";
import { createPage } from "./state/page.ts";

const root = document.querySelector<HTMLElement>("#page");
if (root === null) throw new Error("the page has no element #page");
const archive = findArchive();
if (archive?.board != null && location.hash === "")
  history.replaceState(
    null,
    "",
    `#${new URLSearchParams({ place: "board", board: archive.board }).toString()}`,
  );
const source = archive === null ? createLiveSource() : createArchiveSource(archive);
render(<App page={createPage(source)} theme={createTheme()} />, root);
