import type { ServerConnection } from '@jupyterlab/services';

import { type IUndo, requestJson, undo } from '../api/client';
import type { ChangeInfo, ChangeList, TakenBack } from '../api/events';

/** The routes of changes by agents in notebooks. Paths are those on the server, without a drive. */
export class ChangesApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /**
   * Return the changes that are not undone, from the newest.
   *
   * @param kept - The oldest ones may be missing if the person has kept all changes up to this time.
   * @param known - The oldest ones, which are not read again.
   */
  async changes(
    notebook: string,
    kept = 0,
    known: readonly ChangeInfo[] = []
  ): Promise<ChangeInfo[]> {
    const found: ChangeInfo[] = [];
    for (;;) {
      const before = found.at(-1)?.entry;
      const path = routeOf(notebook, before);
      const page = await requestJson<ChangeList>(this._settings, 'GET', path);
      found.push(...page.changes);
      const last = page.changes.at(-1);
      if (!page.more || last === undefined || last.time <= kept) {
        return found;
      }
      if (last.entry <= (known[0]?.entry ?? -1)) {
        return [...found, ...known.filter(({ entry }) => entry < last.entry)];
      }
    }
  }

  /** Undo changes. */
  async undo(notebook: string, entries: IUndo): Promise<TakenBack[]> {
    return undo(this._settings, notebook, entries);
  }
}

function routeOf(notebook: string, before?: number): string {
  const path = `changes?notebook=${encodeURIComponent(notebook)}`;
  return before === undefined ? path : `${path}&before=${before}`;
}
