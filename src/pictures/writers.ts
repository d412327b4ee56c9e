import type { ServerConnection } from '@jupyterlab/services';

import { requestJson } from '../api/client';
import { type IKept, isKept } from '../state/kept';

/** Which cells of a notebook hold what agents wrote, as the server tells it. */
export interface IWritten {
  /** By the cell's key, the time of its last change in seconds since the epoch. */
  cells: Readonly<Record<string, number>>;
  /** The time of a change of which is not known yet which cells it changed. */
  unsettled: number | null;
}

/** The route that tells it. */
export class WritersApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** @throws ApiError - The server cannot be reached, or does not tell. */
  written(notebook: string): Promise<IWritten> {
    const path = `changes/cells?notebook=${encodeURIComponent(notebook)}`;
    return requestJson<IWritten>(this._settings, 'GET', path);
  }
}

/** Of which cells it is not sure that a person wrote or kept what is in them. */
export type Doubt = 'all' | ReadonlySet<string>;

/**
 * The cells in which something of an agent's stands that the person has not kept.
 *
 * @param ids - Those of the cells in the notebook. A key that is none of them is a place, as in
 * notebooks without ids, and says little: then it may be any cell.
 */
export function doubtful(written: IWritten, kept: IKept, ids: ReadonlySet<string>): Doubt {
  if (written.unsettled !== null && written.unsettled > kept.all) {
    return 'all';
  }
  const cells = Object.entries(written.cells)
    .filter(([cell, time]) => !isKept(kept, { cell, time }))
    .map(([cell]) => cell);
  return cells.some(cell => /^cell-\d+$/.test(cell) && !ids.has(cell)) ? 'all' : new Set(cells);
}
