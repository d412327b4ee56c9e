/** Changes that need a person's decision. Pure functions. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ICellsByEntry } from '../api/client';
import type { TakenBack } from '../api/events';

/** A change of one cell that is neither kept nor undone. */
export interface IPendingStep {
  entry: number;
  cell: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** Unified diff of the source; empty if it is unchanged. */
  diff: string;
  /** Whether the diff is not complete. */
  truncated?: boolean;
}

/**
 * Return whether a cell was inserted and deleted again, so that it has nothing to review.
 *
 * If a person wrote in it meanwhile, other lines were removed than were added.
 *
 * @param steps - The pending steps of the cell, from the oldest.
 */
export function isGone(steps: readonly IPendingStep[]): boolean {
  const linesOf = (mark: string): string =>
    steps
      .flatMap(({ diff }) => diff.split('\n'))
      .flatMap(line => (line.startsWith(mark) ? line.slice(1) : []))
      .sort()
      .join('\n');
  return (
    steps[0]?.action === 'insert' &&
    steps.at(-1)?.action === 'delete' &&
    steps.every(({ truncated }) => truncated !== true) &&
    linesOf('+') === linesOf('-')
  );
}

/** Return these steps as changes to keep or undo. */
export function cellsByEntry(steps: Iterable<Pick<IPendingStep, 'entry' | 'cell'>>): ICellsByEntry {
  const cells: ICellsByEntry = {};
  for (const { entry, cell } of steps) {
    (cells[entry] ??= []).push(cell);
  }
  return cells;
}

/** Return how many cells were not reverted, since they were edited later or were undone before. */
export function leftIn(undone: readonly TakenBack[]): number {
  return undone.flatMap(each => each.left).length;
}

/** Return a message about cells that were not reverted; empty for none. */
export function leftNote(count: number, trans: TranslationBundle): string {
  return count === 0
    ? ''
    : trans._n(
        '%1 cell was not undone: it was edited later, or was undone before.',
        '%1 cells were not undone: they were edited later, or were undone before.',
        count
      );
}
