/** The changes by agents that a person has kept. Pure functions. */

/**
 * What a person has kept of a notebook: single changes, each by its cell and time.
 *
 * A later or earlier change of the same cell is not kept with them: another agent may have made it.
 * Times are used since the ids of entries start again with a new journal.
 */
export interface IKept {
  /** All changes up to a time: what is too much for `steps`, and what earlier versions stored. */
  all: number;
  /** The changes of single cells up to a time, likewise. */
  cells: Readonly<Record<string, number>>;
  /** The times of single changes, each by its time and cell, or without a cell for all of its cells. */
  steps: Readonly<Record<string, number>>;
  /** The time of the last change when all of the notebook were kept. */
  seen: number;
}

/** A change of a cell, or of all of its cells, by its time in seconds since the epoch. */
export interface IChanged {
  /** The cell's key. */
  cell?: string;
  time: number;
}

/**
 * Maximum number of single changes of a notebook. Of more, the oldest count as kept with all before
 * them, as far as all of the notebook were kept. Otherwise they need a decision again.
 */
const MAX_STEPS = 4000;

export const NOTHING_KEPT: IKept = { all: 0, cells: {}, steps: {}, seen: 0 };

function nameOf({ cell = '', time }: IChanged): string {
  return `${time} ${cell}`;
}

/** Return whether a change was kept. */
export function isKept({ all, cells, steps }: IKept, change: Required<IChanged>): boolean {
  const { cell, time } = change;
  const until = Math.max(all, cells[cell] ?? 0);
  return time <= until || nameOf({ time }) in steps || nameOf(change) in steps;
}

/** Return what keeps these changes, and no others. */
export function keeping(changes: readonly IChanged[]): IKept {
  return {
    ...NOTHING_KEPT,
    steps: Object.fromEntries(changes.map(each => [nameOf(each), each.time]))
  };
}

/** Merge two records of kept changes. */
export function mergeKept(one: IKept, other: IKept): IKept {
  const cells = { ...one.cells };
  for (const [cell, time] of Object.entries(other.cells)) {
    cells[cell] = Math.max(cells[cell] ?? 0, time);
  }
  const steps = Object.entries({ ...one.steps, ...other.steps });
  // From the newest.
  const cut = steps.sort(([, time], [, next]) => next - time)[MAX_STEPS]?.[1] ?? 0;
  const seen = Math.max(one.seen, other.seen);
  const all = Math.max(one.all, other.all, Math.min(cut, seen));
  return {
    all,
    cells,
    steps: Object.fromEntries(steps.filter(([, time]) => time > all && time >= cut)),
    seen
  };
}
