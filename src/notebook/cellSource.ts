/** Writes the source of a cell for its person. */

import type { ISharedCell } from '@jupyter/ydoc';

import { editSource, textEdit } from '../common/sourceEdit';

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
  const { undoManager } = shared as { undoManager?: { stopCapturing: () => void } | null };
  undoManager?.stopCapturing();
  editSource(shared, textEdit(base, source));
  undoManager?.stopCapturing();
  return true;
}
