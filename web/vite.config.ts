import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

/** What uPlot offers and the page does not use: it draws its lines itself, and joins no tables. */
const UNUSED = ["(paths.linear  = linear);", "(paths.stepped = stepped);", "(paths.bars    = bars);", "(paths.spline  = monotoneCubic);", "uPlot.join = join;"];

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
      const pairs = UNUSED.map((part) => [part, ""] as const);
      return { code: [...pairs, ["const linearPath = linear() ;", "const linearPath = null;"] as const].reduce(cut, code), map: null };
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
