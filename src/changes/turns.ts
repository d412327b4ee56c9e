/** How what a turn of a chat changed stands, cell by cell. Plain values. */

import type { IChange } from '../api/events';
import { changesByCell, type IJournal, type ITurn } from '../chat/state';
import { type IKept, isKept, keeping } from './kept';

/**
 * What became of a changed cell: `open` until the person has decided; `settled` where nothing is
 * known of it any more.
 */
export type Standing = 'open' | 'kept' | 'undone' | 'settled';

/** A cell that a turn changed. */
export interface ICellReview {
  cell: string;
  /** The notebook's path now. */
  notebook: string;
  /** What was done to its source, the first first. */
  changes: readonly IChange[];
  standing: Standing;
}

/**
 * The cells whose source a turn changed, in the order in which it touched them.
 *
 * @param journal - What the server knows of the chat's changes; null where it was not asked yet.
 * @param keptOf - What the person has kept of a notebook.
 */
export function reviewOf(
  turn: ITurn,
  journal: IJournal | null,
  keptOf: (path: string) => IKept
): ICellReview[] {
  const entries = new Map(journal?.changes.map(each => [each.entry, each]));
  return [...changesByCell(turn).values()].flatMap(all => {
    const changes = all.filter(change => change.action !== 'outputs');
    const [first] = changes;
    if (first === undefined) {
      return [];
    }
    const { cell } = first;
    const standing = changes.flatMap(({ entry }) => {
      const known = entries.get(entry);
      return known?.cells.includes(cell) === true ? [known] : [];
    });
    const notebook = standing[0]?.notebook ?? first.notebook;
    const seen = keptOf(notebook);
    return [{ cell, notebook, changes, standing: state() }];

    function state(): Standing {
      if (standing.length > 0) {
        return standing.every(({ time }) => isKept(seen, { cell, time })) ? 'kept' : 'open';
      }
      const known = journal?.ended.has(turn.id) === true && turn.time >= journal.since;
      return known ? 'undone' : 'settled';
    }
  });
}

/** What is kept of each notebook once all that stands of a turn is kept. */
export function keepingTurn(turn: string, journal: IJournal): Map<string, IKept> {
  const changed = new Map<string, { cell: string; time: number }[]>();
  for (const { turn: of, notebook, time, cells } of journal.changes) {
    if (of === turn) {
      const before = changed.get(notebook) ?? [];
      changed.set(notebook, [...before, ...cells.map(cell => ({ cell, time }))]);
    }
  }
  return new Map([...changed].map(([notebook, some]) => [notebook, keeping(some)]));
}
