import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

/** What uPlot offers and the page does not use: it draws its lines itself, joins no tables, and writes the times on its axes itself. */
const UNUSED = [
  ...["(paths.linear  = linear);", "(paths.stepped = stepped);", "(paths.bars    = bars);", "(paths.spline  = monotoneCubic);"],
  ...["let paths = uPlot.paths = {\n\t\tpoints,\n\t};", "uPlot.addGap = addGap;", "uPlot.clipGaps = clipGaps;", "uPlot.orient   = orient;"],
  ...["uPlot.join = join;", "uPlot.fmtDate = fmtDate;", "uPlot.tzDate  = tzDate;", "uPlot.assign = assign;", "uPlot.sync = _sync;"],
];
const REPLACED: readonly (readonly [string, string])[] = [
  ["const linearPath = linear() ;", "const linearPath = null;"],
  ["const pointsPath = points() ;", "const pointsPath = null;"],
  // Without scales of time nothing formats a date.
  ["const [ timeIncrsMs, _timeAxisStampsMs, timeAxisSplitsMs ] = genTimeStuffs(1);", ""],
  ["const [ timeIncrsS,  _timeAxisStampsS,  timeAxisSplitsS  ] = genTimeStuffs(1e-3);", ""],
  ["const _fmtDate = (opts.fmtDate || fmtDate);", ""],
  ["const _timeAxisSplits = (ms == 1 ? timeAxisSplitsMs(_tzDate) : timeAxisSplitsS(_tzDate));", ""],
  ["const _timeAxisVals   = timeAxisVals(_tzDate, timeAxisStamps((ms == 1 ? _timeAxisStampsMs : _timeAxisStampsS), _fmtDate));", ""],
  ["const _timeSeriesVal  = timeSeriesVal(_tzDate, timeSeriesStamp(_timeSeriesStamp, _fmtDate));", ""],
  ["isTime ? (isStr(sv) ? timeSeriesVal(_tzDate, timeSeriesStamp(sv, _fmtDate)) : sv || _timeSeriesVal) : sv || numSeriesVal", "sv || numSeriesVal"],
  ["(isTime ? (ms == 1 ? timeIncrsMs : timeIncrsS) : numIncrs)", "numIncrs"],
  ["isTime && sc.distr == 1 ? _timeAxisSplits : ", ""],
  ["timeAxisVals(_tzDate, timeAxisStamps(av, _fmtDate))", "av"],
  ["timeAxisVal(_tzDate, av)", "av"],
  ["av || _timeAxisVals", "av"],
];

/** Leave it out of the page; what nothing refers to any more is dropped by the bundler. */
function trimmedPlot(): Plugin {
  return {
    name: "trimmed-uplot",
    transform(code, id) {
      if (!id.endsWith("uPlot.esm.js")) return undefined;
      const cut = (text: string, [part, other]: readonly [string, string]): string => {
        if (!text.includes(part)) throw new Error(`uPlot has no "${part}" any more: say anew what is left out`);
        return text.replace(part, other);
      };
      return { code: [...UNUSED.map((part) => [part, ""] as const), ...REPLACED].reduce(cut, code), map: null };
    },
  };
}

export default defineConfig({
  plugins: [trimmedPlot(), viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: "es2022",
    outDir: "dist",
    // The hash of a name would change nothing: everything lands in one file.
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    reportCompressedSize: false,
  },
  test: {
    projects: [
      { test: { name: "unit", environment: "node", include: ["tests/{chart,ui,source,state,panels}/**/*.test.ts"] } },
      {
        test: {
          name: "browser",
          environment: "node",
          include: ["tests/browser/**/*.test.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
