/** The review state of each cell that a turn changed. Pure functions. */

import type { CellChangedEvent } from '../api/events';
import { changesByCell, type IJournal, type ITurn } from '../state/chat';
import { type IPendingStep, isGone } from './pending';

/**
 * The review state of a changed cell: `open` until the person has decided, `settled` if the journal
 * does not know it any more.
 */
export type ReviewStatus = 'open' | 'kept' | 'undone' | 'settled';

/** A cell that a turn changed. */
export interface ICellReview {
  cell: string;
  /** The notebook's path now. */
  notebook: string;
  /** Its changes, from the first. */
  changes: readonly CellChangedEvent[];
  /** The changes that need a decision. */
  pending: readonly IPendingStep[];
  status: ReviewStatus;
}

/**
 * Return the cells that a turn changed, in the order of their first change.
 *
 * @param journal - The chat's changes from the server; null if not read yet.
 */
export function reviewOf(turn: ITurn, journal: IJournal | null): ICellReview[] {
  const entries = new Map(journal?.changes.map(each => [each.entry, each]));
  return [...changesByCell(turn).values()].flatMap(changes => {
    const { cell, notebook: path } = changes[0] as CellChangedEvent;
    let notebook = path;
    const steps = changes.flatMap(({ entry, action, diff }) => {
      const known = entries.get(entry);
      if (known?.cells.includes(cell) !== true) {
        return [];
      }
      notebook = known.notebook;
      return [{ entry, action, cell, diff, isKept: known.kept.includes(cell) }];
    });
    const pending: IPendingStep[] = steps.filter(({ isKept }) => !isKept);
    if (isGone(pending)) {
      return [];
    }
    const isOver = journal?.ended.has(turn.id) === true && turn.time >= journal.since;
    const status =
      pending.length > 0 ? 'open' : steps.length > 0 ? 'kept' : isOver ? 'undone' : 'settled';
    return [{ cell, notebook, changes, pending, status }];
  });
}
