/** The changes by agents that a person has kept. Pure functions. */

/**
 * What a person has kept of a notebook: all changes up to a time, and single later ones.
 *
 * Times are used since the ids of entries start again with a new journal. They increase with each change.
 */
export interface IKept {
  all: number;
  /** The times of single changes, each by its time and cell, or without a cell for all of its cells. */
  steps: Readonly<Record<string, number>>;
}

/** A change of a cell, or of all of its cells, by its time in seconds since the epoch. */
export interface IChanged {
  /** The cell's key. */
  cell?: string;
  time: number;
}

/** Maximum number of single changes of a notebook. Of more, the oldest count as kept with all before them. */
const MAX_STEPS = 4000;

export const NOTHING_KEPT: IKept = { all: 0, steps: {} };

function nameOf({ cell = '', time }: IChanged): string {
  return `${time} ${cell}`;
}

/** Return whether a change was kept. */
export function isKept({ all, steps }: IKept, change: Required<IChanged>): boolean {
  const { time } = change;
  return time <= all || nameOf({ time }) in steps || nameOf(change) in steps;
}

/** Return what keeps these changes, and no others. */
export function keeping(changes: readonly IChanged[]): IKept {
  return { all: 0, steps: Object.fromEntries(changes.map(each => [nameOf(each), each.time])) };
}

/** Merge two records of kept changes. */
export function mergeKept(one: IKept, other: IKept): IKept {
  // From the newest.
  const steps = Object.entries({ ...one.steps, ...other.steps }).sort(
    ([, time], [, next]) => next - time
  );
  const all = Math.max(one.all, other.all, steps[MAX_STEPS]?.[1] ?? 0);
  return { all, steps: Object.fromEntries(steps.filter(([, time]) => time > all)) };
}
