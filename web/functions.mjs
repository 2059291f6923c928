// Prints how many lines each function of src/ has, as JSON: {"src/state/runs.ts:createRuns": 526, …}.

import { readdirSync, readFileSync } from "node:fs";
import { parseSync } from "vite";

const FUNCTIONS = new Set(["ArrowFunctionExpression", "FunctionDeclaration", "FunctionExpression"]);
const counts = {};

for (const name of readdirSync("src", { recursive: true })) {
  if (!/\.tsx?$/.test(name)) continue;
  const file = `src/${name}`;
  const text = readFileSync(file, "utf-8");
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  count(program, "anonymous", file, text);
}
console.log(JSON.stringify(counts));

/** Count the functions below a node; one without a name has that of the variable or key before it. */
function count(node, name, file, text) {
  if (FUNCTIONS.has(node.type)) {
    const key = `${file}:${node.id?.name ?? name}`;
    const lines = text.slice(node.start, node.end).split("\n").length;
    counts[key] = Math.max(counts[key] ?? 0, lines);
  }
  const named = node.id?.name ?? node.key?.name ?? "anonymous";
  for (const child of Object.values(node).flat())
    if (typeof child?.type === "string") count(child, named, file, text);
}
