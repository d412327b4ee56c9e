/** Writes the source of a cell for its person. */

import type { ISharedCell } from '@jupyter/ydoc';

/**
 * Replace the source of a cell, in one step of its undo stack.
 *
 * @param base - The source that is expected.
 * @returns Whether the cell had that source. Otherwise nothing is written.
 */
export function writeSource(shared: ISharedCell, base: string, source: string): boolean {
  if (shared.source !== base) {
    return false;
  }
  const [start, end, text] = difference(base, source);
  const { undoManager } = shared as { undoManager?: { stopCapturing: () => void } | null };
  undoManager?.stopCapturing();
  shared.updateSource(start, end, text);
  undoManager?.stopCapturing();
  return true;
}

/** Return the range of a text that differs from another one, and what stands there: cursors stay. */
export function difference(
  base: string,
  source: string
): [start: number, end: number, text: string] {
  const shorter = Math.min(base.length, source.length);
  let start = 0;
  while (start < shorter && base[start] === source[start]) {
    start++;
  }
  let same = 0;
  while (same < shorter - start && base.at(-1 - same) === source.at(-1 - same)) {
    same++;
  }
  return [start, base.length - same, source.slice(start, source.length - same)];
}
