import { JSONExt, type ReadonlyPartialJSONObject, Token } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import { type AppStore, without } from '../state/app';
import type { IStorage } from '../common/storage';
import { type IKept, mergeKept, NOTHING_KEPT } from '../state/keptChanges';
import { pathAfter, stateAfter } from '../state/moves';

const KEY = 'kept';

/** What a person has decided in a notebook. */
export interface IDecision {
  path: string;
  /** Whether they kept or undid changes. What was undone is in the server's journal. */
  kind: 'kept' | 'undone';
}

/**
 * The person's decisions on changes by agents, shared by all views: which changes they kept.
 *
 * Undone changes are in the server's journal; a signal says when to read it again.
 */
export interface IReviews {
  /** Emitted after each decision in the page. */
  readonly decided: ISignal<IReviews, IDecision>;
  /** Return what was kept of a notebook, as far as it is loaded. */
  of(path: string): IKept;
  /** Load what was kept of a notebook. Emits `decided` if it differs. */
  load(path: string): Promise<IKept>;
  /** Keep changes of a notebook. Views are updated at once; the promise settles when it is saved. */
  keep(path: string, more: IKept): Promise<void>;
  /** Emit that changes of a notebook were undone. */
  notifyUndone(path: string): void;
  /** Handle a file or folder that was renamed or, if `path` is null, deleted. It may be reported twice. */
  moved(old: string, path: string | null): Promise<void>;
}

export const IReviews = new Token<IReviews>(
  'tk-ai-extension:IReviews',
  'The changes by agents that a person has kept.'
);

/** Stores the decisions in the browser, shared by all its windows. */
export class Reviews implements IReviews {
  constructor(
    private readonly _storage: IStorage,
    private readonly _store: AppStore
  ) {
    _storage.changed.connect((_, name) => {
      const path = name.slice(keyOf('').length);
      if (name === keyOf(path) && path in this._store.state.kept) {
        void this.load(path);
      }
    });
  }

  get decided(): ISignal<this, IDecision> {
    return this._decided;
  }

  of(path: string): IKept {
    return this._store.state.kept[path] ?? NOTHING_KEPT;
  }

  load(path: string): Promise<IKept> {
    return this._inOrder(() => this._load(path));
  }

  keep(path: string, more: IKept): Promise<void> {
    this._set(path, mergeKept(this.of(path), more));
    this._decided.emit({ path, kind: 'kept' });
    return this._inOrder(async () => this._replace(path, mergeKept(await this._load(path), more)));
  }

  notifyUndone(path: string): void {
    this._decided.emit({ path, kind: 'undone' });
  }

  moved(old: string, path: string | null): Promise<void> {
    const after = (name: string): string | null => pathAfter(name, old, path);
    this._store.update(state => stateAfter(state, after));
    return this._inOrder(async () => {
      const entries = await this._storage.entries(keyOf(''));
      for (const name of new Set([
        ...entries.map(([name]) => name),
        ...Object.keys(this._store.state.kept)
      ])) {
        const target = after(name);
        if (target !== name) {
          const kept = await this._load(name);
          await this._replace(name, NOTHING_KEPT);
          await (target !== null && this._replace(target, kept));
        }
      }
    });
  }

  private async _load(path: string): Promise<IKept> {
    const found = (await this._storage.fetch(keyOf(path))) as Partial<IKept> | undefined;
    // Include what was kept while the storage was read.
    const before = this.of(path);
    const kept = mergeKept({ ...NOTHING_KEPT, ...found }, before);
    const isNew = !JSONExt.deepEqual(kept as never, before as never);
    if (isNew || !(path in this._store.state.kept)) {
      this._set(path, kept);
    }
    if (isNew) {
      this._decided.emit({ path, kind: 'kept' });
    }
    return kept;
  }

  /** Replace what was kept of a notebook. */
  private async _replace(path: string, kept: IKept): Promise<void> {
    const before = this.of(path);
    if (JSONExt.deepEqual(kept as never, NOTHING_KEPT as never)) {
      this._store.update(state => ({ ...state, kept: without(state.kept, path) }));
      await this._storage.remove(keyOf(path));
    } else {
      this._set(path, kept);
      await this._storage.save(keyOf(path), kept as unknown as ReadonlyPartialJSONObject);
    }
    if (!JSONExt.deepEqual(kept as never, before as never)) {
      this._decided.emit({ path, kind: 'kept' });
    }
  }

  /** Read and write the storage one after the other: a name may change its notebook in between. */
  private _inOrder<T>(change: () => Promise<T>): Promise<T> {
    const changed = this._changes.then(change);
    this._changes = changed.catch(() => undefined) as Promise<never>;
    return changed;
  }

  private _set(path: string, kept: IKept): void {
    this._store.update(state => ({ ...state, kept: { ...state.kept, [path]: kept } }));
  }

  private _changes = Promise.resolve();
  private readonly _decided = new Signal<this, IDecision>(this);
}

function keyOf(path: string): string {
  return `${KEY}:${path}`;
}
