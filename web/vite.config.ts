import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: "es2022",
    outDir: "dist",
    modulePreload: { polyfill: false },
    // The hash of a name would change nothing: everything lands in one file.
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    reportCompressedSize: false,
  },
  // `npm run dev` shows the runs of `epochal serve`, at its default port.
  server: { proxy: { "/api": "http://127.0.0.1:6060" } },
  test: { environment: "node", include: ["tests/**/*.test.ts"] },
});
