/** The chart library's door. It knows plain data and calls back; nothing of runs, stores or addresses. */

export { aggregate, overlaid } from "./aggregate.ts";
export type { SpreadKind } from "./aggregate.ts";
export { createBands, percentilesOf } from "./bands.ts";
export { brushesText, isNameOf, parseBrushes, passes } from "./brush.ts";
export type { Brush } from "./brush.ts";
export { createBars, createStackedBar } from "./bars.ts";
export type { Bar, Segment } from "./bars.ts";
export type { Distribution, StepDistribution } from "./distribution.ts";
export type { Chart } from "./canvas.ts";
export * from "./format.ts";
export { createHeatmap } from "./heatmap.ts";
export type { HeatmapOptions } from "./heatmap.ts";
export { createHistogram } from "./histogram.ts";
export { createLanes } from "./lanes.ts";
export type { Lane, LanesOptions, Level, Span } from "./lanes.ts";
export { createLazyQueue } from "./lazy.ts";
export type { LazyQueue } from "./lazy.ts";
export { createLineChart } from "./line/chart.ts";
export type { LineChart } from "./line/chart.ts";
export type { Limit, LineOptions, Mark, Stretch } from "./line/options.ts";
export {
  assignSlots,
  besideSlot,
  NUM_BRIGHT,
  ownSlot,
  PALETTE,
  rangeSlot,
  SERIES_DASHES,
  slotCss,
  slotSample,
} from "./palette.ts";
export { createParallel } from "./parallel.ts";
export type { ParallelOptions } from "./parallel.ts";
export { createRidge } from "./ridge.ts";
export type { Range } from "./scale.ts";
export { createScatter, rankCorrelation } from "./scatter.ts";
export type { ScatterOptions } from "./scatter.ts";
export { nearestIndex } from "./series.ts";
export type { BucketData, Series, SeriesData } from "./series.ts";
export { smoothingText } from "./smooth.ts";
export { createStacked } from "./stacked.ts";
export type { StackColumn, StackedOptions, StackPart } from "./stacked.ts";
export { createSyncBus } from "./sync.ts";
export type { SyncBus } from "./sync.ts";
export { axisName } from "./ticks.ts";
export type { AxisFormat } from "./ticks.ts";
export { shortNumber as fewDigits } from "./value-axis.ts";
export type { AxisValue } from "./value-axis.ts";
