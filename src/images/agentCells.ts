import type { ServerConnection } from '@jupyterlab/services';

import { requestJson } from '../api/client';
import { type IKept, isKept } from '../state/keptChanges';

/** The cells of a notebook that agents wrote, from the server. */
export interface IAgentCells {
  /** Time of the last change in seconds since the epoch, by the cell's key. */
  cells: Readonly<Record<string, number>>;
  /** Times of all their changes that are not undone; none from a server of an earlier version. */
  changes?: Readonly<Record<string, readonly number[]>>;
  /** Time of a change whose cells are not known yet; null for none. */
  unsettled: number | null;
}

/** The route of the cells that agents wrote. */
export class AgentCellsApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** @throws ApiError - The server cannot be reached, or refuses. */
  fetch(notebook: string): Promise<IAgentCells> {
    const path = `changes/cells?notebook=${encodeURIComponent(notebook)}`;
    return requestJson<IAgentCells>(this._settings, 'GET', path);
  }
}

/** Ids of cells that may hold unreviewed work of agents; `all` if it may be any cell. */
export type UnreviewedCells = 'all' | ReadonlySet<string>;

/**
 * Return the cells that agents wrote and the person has not kept.
 *
 * @param ids - The ids of the cells in the notebook. A key that is not among them is a position, as
 *   in notebooks without ids, which may have moved: then it may be any cell.
 */
export function unreviewedCells(
  agentCells: IAgentCells,
  kept: IKept,
  ids: ReadonlySet<string>
): UnreviewedCells {
  const all = Math.max(kept.all, kept.seen);
  if (agentCells.unsettled !== null && agentCells.unsettled > all) {
    return 'all';
  }
  const cells = Object.entries(agentCells.cells)
    .filter(([cell, last]) => {
      const isOpen = (time: number): boolean => !isKept(kept, { cell, time });
      // The last one may be an undo, which nothing shows.
      return agentCells.changes?.[cell]?.some(isOpen) === true || (last > all && isOpen(last));
    })
    .map(([cell]) => cell);
  return cells.some(cell => /^cell-\d+$/.test(cell) && !ids.has(cell)) ? 'all' : new Set(cells);
}
