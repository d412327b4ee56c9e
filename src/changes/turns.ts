/** How what a turn of a chat changed stands, cell by cell. Plain values. */

import type { CellChangedEvent } from '../api/events';
import { changesByCell, type IJournal, type ITurn } from '../state/chat';
import { type IKept, isKept, keeping } from '../state/kept';
import { type IStandingStep, pendingSteps } from './pending';

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
  /** What was done to it, the first first. */
  changes: readonly CellChangedEvent[];
  /** Those of them that wait for a decision. */
  pending: readonly IStandingStep[];
  standing: Standing;
}

/**
 * The cells that a turn changed, in the order in which it touched them.
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
  return [...changesByCell(turn).values()].flatMap(changes => {
    const { cell, notebook: path } = changes[0] as CellChangedEvent;
    let notebook = path;
    const steps = changes.flatMap(({ entry, action }): IStandingStep[] => {
      const known = entries.get(entry);
      if (known?.cells.includes(cell) !== true) {
        return [];
      }
      notebook = known.notebook;
      return [{ entry, action, cell, time: known.time }];
    });
    const kept = keptOf(notebook);
    const pending = pendingSteps(steps, kept);
    if (pending.length === 0 && steps.some(step => !isKept(kept, step))) {
      // It came and went.
      return [];
    }
    const isOver = journal?.ended.has(turn.id) === true && turn.time >= journal.since;
    const standing =
      pending.length > 0 ? 'open' : steps.length > 0 ? 'kept' : isOver ? 'undone' : 'settled';
    return [{ cell, notebook, changes, pending, standing }];
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
