/** What waits for a person's decision, for all that list it. Plain values. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IUndo } from '../api/client';
import type { TakenBack } from '../api/events';
import { type IKept, isKept } from '../state/kept';

/** A change of one cell that stands: nobody has undone it. */
export interface IStandingStep {
  entry: number;
  /** Seconds since the epoch. */
  time: number;
  cell: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
}

/**
 * The steps that wait for a decision, in their order.
 *
 * @param steps - Those of one cell, the oldest first.
 * @param kept - What the person has kept of the notebook.
 */
export function pendingSteps<T extends IStandingStep>(steps: readonly T[], kept: IKept): T[] {
  const open = steps.filter(step => !isKept(kept, step));
  // A cell that came and went leaves nothing to look at.
  const isGone = open[0]?.action === 'insert' && open.at(-1)?.action === 'delete';
  return isGone ? [] : open;
}

/** The undo of pending steps. */
export function undoOf(steps: Iterable<Pick<IStandingStep, 'entry' | 'cell'>>): IUndo {
  const [entries, cells] = [new Set<number>(), new Set<string>()];
  for (const { entry, cell } of steps) {
    entries.add(entry);
    cells.add(cell);
  }
  return { entries: [...entries], cells: [...cells] };
}

/** How many changes of an undo stay: somebody has worked on their cells since. */
export function leftIn(undone: readonly TakenBack[]): number {
  return undone.flatMap(each => each.left).length;
}

/** Says what an undo has left as it is; empty for nothing. */
export function leftNote(count: number, trans: TranslationBundle): string {
  return count === 0
    ? ''
    : trans._n(
        '%1 cell was not reverted: it was edited later.',
        '%1 cells were not reverted: they were edited later.',
        count
      );
}
