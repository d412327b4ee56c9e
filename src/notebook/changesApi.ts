import type { ServerConnection } from '@jupyterlab/services';

import { requestJson, undo } from '../api/client';
import type { ChangeInfo, TakenBack } from '../api/events';

/** The routes that tell of what agents do in notebooks. Paths are the server's: without a drive. */
export class ChangesApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** The changes that stand, the newest first. */
  async changes(notebook: string): Promise<ChangeInfo[]> {
    const path = routeOf(notebook);
    return (await requestJson<{ changes: ChangeInfo[] }>(this._settings, 'GET', path)).changes;
  }

  /** Takes changes back, all of them or those of some cells. */
  async undo(notebook: string, entries: number[], cells: string[]): Promise<TakenBack[]> {
    return undo(this._settings, notebook, entries, cells);
  }
}

function routeOf(notebook: string): string {
  return `changes?notebook=${encodeURIComponent(notebook)}`;
}
