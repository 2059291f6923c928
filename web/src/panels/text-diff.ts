/** Which words of a text another one does not have. */

export interface Piece {
  readonly text: string;
  readonly isNew: boolean;
}

/** Beyond this many words on both sides the texts are shown without marks: the table below would be too large. */
const MOST_CELLS = 4_000_000;

/** A text in pieces, those marked that are not in `base` at the same place; whitespace alone is never marked. */
export function differences(base: string, text: string): readonly Piece[] {
  if (base === text) return [{ text, isNew: false }];
  const [one, other] = [wordsOf(base), wordsOf(text)];
  if ((one.length + 1) * (other.length + 1) > MOST_CELLS) return [{ text, isNew: false }];
  return joined(markedWords(one, other));
}

function wordsOf(text: string): string[] {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/** The longest common subsequence, walked from its start. */
function markedWords(one: readonly string[], other: readonly string[]): Piece[] {
  const width = other.length + 1;
  const lengths = new Uint32Array((one.length + 1) * width);
  for (let row = one.length - 1; row >= 0; row--) {
    for (let column = other.length - 1; column >= 0; column--) {
      const isSame = one[row] === other[column];
      lengths[row * width + column] = isSame
        ? lengths[(row + 1) * width + column + 1]! + 1
        : Math.max(lengths[(row + 1) * width + column]!, lengths[row * width + column + 1]!);
    }
  }
  const pieces: Piece[] = [];
  let row = 0;
  for (let column = 0; column < other.length; ) {
    const isSame = row < one.length && one[row] === other[column];
    const skipsBase =
      !isSame &&
      row < one.length &&
      lengths[(row + 1) * width + column]! >= lengths[row * width + column + 1]!;
    if (skipsBase) {
      row++;
      continue;
    }
    pieces.push({ text: other[column]!, isNew: !isSame && other[column]!.trim() !== "" });
    column++;
    if (isSame) row++;
  }
  return pieces;
}

function joined(pieces: readonly Piece[]): readonly Piece[] {
  const result: Piece[] = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    if (last !== undefined && last.isNew === piece.isNew)
      result[result.length - 1] = { text: last.text + piece.text, isNew: piece.isNew };
    else result.push(piece);
  }
  return result;
}
