import type { ServerConnection } from '@jupyterlab/services';

import { listen, requestJson, undo } from '../api/client';
import type { Activity, ChangeInfo, TakenBack } from '../api/events';

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

  /**
   * What happens in a notebook from now on: null once the server listens, then each activity.
   *
   * @throws ApiError - the server cannot be reached, or does not tell.
   */
  async *follow(
    notebook: string,
    signal: AbortSignal
  ): AsyncGenerator<Activity | null, void, undefined> {
    for await (const event of listen(this._settings, routeOf(notebook), signal)) {
      yield event === null ? null : (event.value as Activity);
    }
  }
}

function routeOf(notebook: string): string {
  return `changes?notebook=${encodeURIComponent(notebook)}`;
}
