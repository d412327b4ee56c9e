import type { ServerConnection } from '@jupyterlab/services';

import { requestJson, undo } from '../api/client';
import type { ChangeInfo, TakenBack } from '../api/events';

/** The routes of changes by agents in notebooks. Paths are those on the server, without a drive. */
export class ChangesApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** Return the changes that are not undone, from the newest. */
  async changes(notebook: string): Promise<ChangeInfo[]> {
    const path = routeOf(notebook);
    return (await requestJson<{ changes: ChangeInfo[] }>(this._settings, 'GET', path)).changes;
  }

  /** Undo entries of the journal in these cells. */
  async undo(notebook: string, entries: number[], cells: string[]): Promise<TakenBack[]> {
    return undo(this._settings, notebook, entries, cells);
  }
}

function routeOf(notebook: string): string {
  return `changes?notebook=${encodeURIComponent(notebook)}`;
}
