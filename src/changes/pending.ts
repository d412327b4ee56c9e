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
}

/**
 * Return the steps that need a decision, in their order.
 *
 * @param steps - The steps of one cell, from the oldest.
 * @param kept - What the person has kept of the notebook.
 */
export function pendingSteps<T extends IPendingStep>(steps: readonly T[], kept: IKept): T[] {
  const open = steps.filter(step => !isKept(kept, step));
  // A cell that was inserted and deleted again has nothing to review.
  const isGone = open[0]?.action === 'insert' && open.at(-1)?.action === 'delete';
  return isGone ? [] : open;
}

/** Return what to undo for these steps. */
export function undoOf(steps: Iterable<Pick<IPendingStep, 'entry' | 'cell'>>): IUndo {
  const undo: IUndo = {};
  for (const { entry, cell } of steps) {
    (undo[entry] ??= []).push(cell);
  }
  return undo;
}

/** Return how many cells were not reverted, since they were edited later. */
export function leftIn(undone: readonly TakenBack[]): number {
  return undone.flatMap(each => each.left).length;
}

/** Return a message about cells that were not reverted; empty for none. */
export function leftNote(count: number, trans: TranslationBundle): string {
  return count === 0
    ? ''
    : trans._n(
        '%1 cell was not undone: it was edited later.',
        '%1 cells were not undone: they were edited later.',
        count
      );
}
