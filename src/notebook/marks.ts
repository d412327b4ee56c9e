/** Which cells agents have changed since the person last kept what they saw. Plain values. */

import { type IKept, isKept } from '../changes/kept';
import type { IChange } from './routes';

/** One change of one cell. */
export interface IStep {
  entry: number;
  /** Seconds since the epoch. */
  time: number;
  author: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
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

/** The marks, by cell, that whoever changed last comes first. */
export function marksOf(changes: readonly IChange[], kept: IKept): Map<string, IMark> {
  const found = new Map<string, { yours: boolean; steps: IStep[] }>();
  for (const { entry, time, author, yours, cells } of changes) {
    for (const { cell, ...done } of cells) {
      if (isKept(kept, { cell, time })) {
        continue;
      }
      const mark = found.get(cell) ?? { yours: true, steps: [] };
      // Of several changes that one call made to a cell, the last one is told last.
      const at = mark.steps.findIndex(step => step.entry <= entry);
      mark.steps.splice(at < 0 ? mark.steps.length : at, 0, { entry, time, author, ...done });
      mark.yours &&= yours;
      found.set(cell, mark);
    }
  }
  const marks = new Map<string, IMark>();
  for (const [cell, { yours, steps }] of found) {
    const [last] = steps;
    const deleted = last?.action === 'delete';
    // A cell that came and went leaves nothing to look at.
    if (last !== undefined && !(deleted && steps.at(-1)?.action === 'insert')) {
      marks.set(cell, { cell, author: last.author, time: last.time, yours, deleted, steps });
    }
  }
  return marks;
}

/** The changes that have to be taken back for these marks to go, and of which cells. */
export function undoing(marks: Iterable<IMark>): { entries: number[]; cells: string[] } {
  const entries = new Set<number>();
  const cells: string[] = [];
  for (const mark of marks) {
    mark.steps.forEach(step => entries.add(step.entry));
    cells.push(mark.cell);
  }
  return { entries: [...entries], cells };
}

/** The place of a cell in a notebook whose cells have these ids; -1 where it is not there. */
export function placeOf(cell: string, ids: readonly string[]): number {
  const place = ids.indexOf(cell);
  const number = /^cell-(\d+)$/.exec(cell)?.[1];
  return place >= 0 || number === undefined || Number(number) >= ids.length
    ? place
    : Number(number);
}
