/** Changes that need a person's decision. Pure functions. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IUndo } from '../api/client';
import type { TakenBack } from '../api/events';
import { type IKept, isKept } from '../state/keptChanges';

/** A change of one cell that is not undone. */
export interface IPendingStep {
  entry: number;
  /** Seconds since the epoch. */
  time: number;
  cell: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** Unified diff of the source; empty if it is unchanged. */
  diff: string;
  /** Whether the diff is not complete. */
  truncated?: boolean;
}

/**
 * Return the steps that need a decision, in their order.
 *
 * @param steps - All steps of one cell, from the oldest.
 * @param kept - What the person has kept of the notebook.
 */
export function pendingSteps<T extends IPendingStep>(steps: readonly T[], kept: IKept): T[] {
  const open = steps.filter(step => !isKept(kept, step));
  const last = steps.at(-1);
  // What was done to a cell is settled where the person has kept that it is deleted.
  return isGone(open) || (last?.action === 'delete' && !open.includes(last)) ? [] : open;
}

/**
 * Return whether a cell was inserted and deleted again, so that it has nothing to review.
 *
 * If a person wrote in it meanwhile, other lines were removed than were added.
 */
function isGone(steps: readonly IPendingStep[]): boolean {
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

/** Return what to undo for these steps. */
export function undoOf(steps: Iterable<Pick<IPendingStep, 'entry' | 'cell'>>): IUndo {
  const undo: IUndo = {};
  for (const { entry, cell } of steps) {
    (undo[entry] ??= []).push(cell);
  }
  return undo;
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
