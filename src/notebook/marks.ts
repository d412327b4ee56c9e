/** Which cells agents have changed since the person last kept what they saw. Plain values. */

import type { IKept } from '../state/kept';
import type { IUndo } from '../api/client';
import { type IStandingStep, pendingSteps, undoOf } from '../changes/pending';
import type { ChangeInfo } from '../api/events';

/** One change of one cell. */
export interface IStep extends IStandingStep {
  author: string;
  /** What became of the source, as a unified diff; empty where it stayed. */
  diff: string;
  truncated: boolean;
}

/** All that stands of what agents did to one cell. */
export interface IMark {
  /** The cell's key: its id, or `cell-N` in a notebook without ids. */
  cell: string;
  /** Who changed it last, and when. */
  author: string;
  time: number;
  /** Whether all of it is the person's agents', so that they may take it back. */
  yours: boolean;
  /** The cell is gone. */
  deleted: boolean;
  /** The newest first. */
  steps: readonly IStep[];
}

/** The marks, by cell, the one that was changed last first. */
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

/** What has to be undone for these marks to go. */
export function undoing(marks: Iterable<IMark>): IUndo {
  return undoOf([...marks].flatMap(({ steps }) => steps));
}

/** The place of a cell in a notebook whose cells have these ids; -1 where it is not there. */
export function placeOf(cell: string, ids: readonly string[]): number {
  const place = ids.indexOf(cell);
  const number = /^cell-(\d+)$/.exec(cell)?.[1];
  return place >= 0 || number === undefined || Number(number) >= ids.length
    ? place
    : Number(number);
}
