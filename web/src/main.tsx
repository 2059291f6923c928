import { render } from "preact";

import "./theme.css";
import "./chart/chart.css";
import "./ui/ui.css";
import { Empty } from "./ui/empty.tsx";

const root = document.querySelector<HTMLElement>("#page");
if (root === null) throw new Error("the page has no element #page");
render(<Empty title="No runs in this folder yet" code="import epochal">Start a training that records, and it appears here.</Empty>, root);
