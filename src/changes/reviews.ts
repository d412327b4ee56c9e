import type { ServerConnection } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import { type ICellsByEntry, keep, requestJson, undo } from '../api/client';
import type { ChangeInfo, ChangeList, TakenBack } from '../api/events';
import type { AppStore } from '../state/app';
import { pathAfter, stateAfter } from '../state/moves';

/**
 * The changes by agents in notebooks, which a person keeps or undoes. The server's journal has them.
 *
 * Paths are those on the server, without a drive.
 */
export interface IReviews {
  /** Emitted when changes were kept or undone in an open notebook, by anybody. */
  readonly decided: ISignal<IReviews, void>;
  /**
   * Return the changes that are neither kept nor undone, from the newest.
   *
   * @param known - The oldest ones, which are not read again.
   */
  list(notebook: string, known?: readonly ChangeInfo[]): Promise<ChangeInfo[]>;
  keep(notebook: string, entries: ICellsByEntry): Promise<void>;
  undo(notebook: string, entries: ICellsByEntry): Promise<TakenBack[]>;
  /** Emit that changes were kept or undone. */
  notify(): void;
  /** Handle a file or folder that was renamed or, if `path` is null, deleted. */
  moved(old: string, path: string | null): void;
}

export const IReviews = new Token<IReviews>(
  'tk-ai-extension:IReviews',
  'The changes by agents in notebooks, to list, keep and undo them.'
);

export class Reviews implements IReviews {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _store: AppStore
  ) {}

  readonly decided = new Signal<this, void>(this);

  async list(notebook: string, known: readonly ChangeInfo[] = []): Promise<ChangeInfo[]> {
    const found: ChangeInfo[] = [];
    for (;;) {
      const path = routeOf(notebook, found.at(-1)?.entry);
      const page = await requestJson<ChangeList>(this._settings, 'GET', path);
      found.push(...page.changes);
      const last = page.changes.at(-1);
      if (!page.more || last === undefined) {
        return found;
      }
      if (last.entry <= (known[0]?.entry ?? -1)) {
        return [...found, ...known.filter(({ entry }) => entry < last.entry)];
      }
    }
  }

  keep(notebook: string, entries: ICellsByEntry): Promise<void> {
    return keep(this._settings, notebook, entries);
  }

  undo(notebook: string, entries: ICellsByEntry): Promise<TakenBack[]> {
    return undo(this._settings, notebook, entries);
  }

  notify(): void {
    this.decided.emit();
  }

  moved(old: string, path: string | null): void {
    this._store.update(state => stateAfter(state, name => pathAfter(name, old, path)));
  }
}

function routeOf(notebook: string, before?: number): string {
  const path = `changes?notebook=${encodeURIComponent(notebook)}`;
  return before === undefined ? path : `${path}&before=${before}`;
}
