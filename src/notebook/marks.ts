/** The cells that agents changed, until a person keeps or undoes that. Pure functions. */

import type { ICellsByEntry } from '../api/client';
import { cellsByEntry, type IPendingStep, isGone } from '../changes/pending';
import type { Activity, ChangeInfo } from '../api/events';

/** One change of one cell. */
export interface IStep extends IPendingStep {
  author: string;
  /** Seconds since the epoch. */
  time: number;
  truncated: boolean;
  /** The source before; null if there was no cell, or the source is too long. */
  before: string | null;
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
  /** From the newest; none of a cell that an agent only points to. */
  steps: readonly IStep[];
}

/** Return the marks by cell, from the cell that was changed last. */
export function marksOf(changes: readonly ChangeInfo[]): Map<string, IMark> {
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
    if (!isGone(steps.toReversed())) {
      const { author, time, action } = steps[0] as IStep;
      const yours = steps.every(step => step.yours);
      marks.set(cell, { cell, author, time, yours, deleted: action === 'delete', steps });
    }
  }
  return marks;
}

/** Return the mark of a cell that an agent points to. */
export function pointer({ author, cells }: Activity): IMark | null {
  const [cell] = cells;
  const time = Date.now() / 1000;
  return cell === undefined
    ? null
    : { cell, author, time, yours: false, deleted: false, steps: [] };
}

/** Return the changes of these marks, to keep or undo them. */
export function entriesOf(marks: Iterable<IMark>): ICellsByEntry {
  return cellsByEntry([...marks].flatMap(({ steps }) => steps));
}
