/** The cells that agents changed and the person has not kept. Pure functions. */

import type { IKept } from '../state/keptChanges';
import type { IUndo } from '../api/client';
import { type IPendingStep, pendingSteps, undoOf } from '../changes/pending';
import type { ChangeInfo } from '../api/events';

/** One change of one cell. */
export interface IStep extends IPendingStep {
  author: string;
  truncated: boolean;
}

/** The changes of one cell by agents that are not undone or kept. */
export interface IMark {
  /** The cell's key: its id, or `cell-N` in a notebook without ids. */
  cell: string;
  /** Author and time of the last change. */
  author: string;
  time: number;
  /** Whether all changes are by the person's agents, so that they may undo them. */
  yours: boolean;
  /** Whether the cell is deleted. */
  deleted: boolean;
  /** From the newest. */
  steps: readonly IStep[];
}

/** Return the marks by cell, from the cell that was changed last. */
export function marksOf(changes: readonly ChangeInfo[], kept: IKept): Map<string, IMark> {
  const byCell = new Map<string, (IStep & { yours: boolean })[]>();
  for (const { entry, time, author, yours, cells } of changes) {
    for (const done of cells) {
      const steps = byCell.get(done.cell) ?? [];
      // Of several changes that one call made to a cell, the last one comes first.
      const at = steps.findIndex(step => step.entry <= entry);
      steps.splice(at < 0 ? steps.length : at, 0, { entry, time, author, yours, ...done });
      byCell.set(done.cell, steps);
    }
  }
  const marks = new Map<string, IMark>();
  for (const [cell, steps] of byCell) {
    const pending = pendingSteps(steps.toReversed(), kept).toReversed();
    const [last] = pending;
    if (last !== undefined) {
      const { author, time } = last;
      const yours = pending.every(step => step.yours);
      const deleted = last.action === 'delete';
      marks.set(cell, { cell, author, time, yours, deleted, steps: pending });
    }
  }
  return marks;
}

/** Return what to undo for these marks. */
export function undoing(marks: Iterable<IMark>): IUndo {
  return undoOf([...marks].flatMap(({ steps }) => steps));
}
