/** The changes by agents that a person has kept. Pure functions. */

/**
 * What a person has kept: changes up to a time, of all cells and of single cells.
 *
 * Times are used since the ids of entries start again with a new journal.
 */
export interface IKept {
  all: number;
  cells: Readonly<Record<string, number>>;
}

/** A change of a cell, by the cell's key and the time in seconds since the epoch. */
export interface IChanged {
  cell: string;
  time: number;
}

export const NOTHING_KEPT: IKept = { all: 0, cells: {} };

/** Return whether a change was kept. */
export function isKept(kept: IKept, { cell, time }: IChanged): boolean {
  return time <= Math.max(kept.all, kept.cells[cell] ?? 0);
}

/** Return what keeps these changes. */
export function keeping(changed: Iterable<IChanged>): IKept {
  const cells: Record<string, number> = {};
  for (const { cell, time } of changed) {
    cells[cell] = Math.max(cells[cell] ?? 0, time);
  }
  return { all: 0, cells };
}

/** Return what keeps all changes up to the last of these. */
export function keepingAll(changes: Iterable<{ time: number }>): IKept {
  return { all: Math.max(0, ...Array.from(changes, ({ time }) => time)), cells: {} };
}

/** Merge two records of kept changes. */
export function mergeKept(one: IKept, other: IKept): IKept {
  const all = Math.max(one.all, other.all);
  const cells = Object.entries(other.cells).reduce<Record<string, number>>(
    (found, [cell, time]) => ({ ...found, [cell]: Math.max(found[cell] ?? 0, time) }),
    { ...one.cells }
  );
  const single = Object.entries(cells).filter(([, time]) => time > all);
  return { all, cells: Object.fromEntries(single) };
}
