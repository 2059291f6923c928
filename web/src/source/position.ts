/** Positions: how far a run has been read, as the server writes it: `run:writer.attempt.part.ordinal,…`. */

type Place = readonly [attempt: number, part: number, ordinal: number];
type Places = ReadonlyMap<string, Place>;

/** How an update relates to a known position. */
export type PositionOrder = "known" | "next" | "overlapping" | "beyond";

/** Split the id of a stream's event, which holds every run's position, into positions of runs. */
export function positionsOf(id: string): Map<string, string> {
  const positions = new Map<string, string>();
  for (const one of id.split(";")) {
    const colon = one.indexOf(":");
    if (colon > 0) positions.set(decodeURIComponent(one.slice(0, colon)), one);
  }
  return positions;
}

/** Whether an update between two positions is known at `at`, follows it, overlaps it, or leaves a gap after it. */
export function comparePosition(at: string, from: string | null, to: string): PositionOrder {
  const known = placesOf(at);
  if (isWithin(placesOf(to), known)) return "known";
  if (from === null) return "overlapping";
  const start = placesOf(from);
  if (!isWithin(start, known)) return "beyond";
  return isWithin(known, start) ? "next" : "overlapping";
}

/** The farther of two positions of one run, writer by writer. */
export function laterPosition(one: string, other: string): string {
  const places = new Map(placesOf(one));
  for (const [writer, place] of placesOf(other)) {
    const known = places.get(writer);
    if (known === undefined || compare(known, place) < 0) places.set(writer, place);
  }
  const run = one.slice(0, one.indexOf(":"));
  return `${run}:${[...places].map(([writer, place]) => [writer, ...place].join(".")).join(",")}`;
}

function placesOf(position: string): Places {
  const places = new Map<string, Place>();
  for (const one of position.slice(position.indexOf(":") + 1).split(",")) {
    const [writer = "", attempt, part, ordinal] = one.split(".");
    if (writer !== "") places.set(writer, [Number(attempt), Number(part), Number(ordinal)]);
  }
  return places;
}

function isWithin(inner: Places, outer: Places): boolean {
  for (const [writer, place] of inner) {
    const limit = outer.get(writer);
    if (limit === undefined || compare(place, limit) > 0) return false;
  }
  return true;
}

function compare(one: Place, other: Place): number {
  return one[0] - other[0] || one[1] - other[1] || one[2] - other[2];
}
