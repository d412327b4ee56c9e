import { JSONExt, type ReadonlyPartialJSONObject, Token } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import { type AppStore, without } from '../state/app';
import type { IStorage } from '../parts/storage';
import { type IKept, joined, NOTHING_KEPT } from '../state/kept';

const KEY = 'kept';

/** What a person has decided in a notebook. */
export interface IDecision {
  path: string;
  /** What they kept, or that something was taken back: the server's journal says what. */
  kind: 'kept' | 'taken back';
}

/**
 * What a person has decided on the changes by agents, for all who show them: what they kept.
 *
 * What was taken back is in the server's journal; here is only said when to look there again.
 */
export interface IReviews {
  /** Emitted when something was decided, wherever in the page. */
  readonly decided: ISignal<IReviews, IDecision>;
  /** What was kept of a notebook, as far as it was asked for. */
  of(path: string): IKept;
  /** Asks what was kept of a notebook, which is told where it is news. */
  load(path: string): Promise<IKept>;
  /** Keeps more of a notebook: at once for all who look, in a moment also beyond a reload. */
  keep(path: string, more: IKept): Promise<void>;
  /** Tells that something was taken back in a notebook. */
  tookBack(path: string): void;
  /** A notebook has another path now. */
  renamed(old: string, path: string): Promise<void>;
}

export const IReviews = new Token<IReviews>(
  'tk-ai-extension:IReviews',
  'What a person has kept of what agents changed in their notebooks.'
);

/** Remembers it in the browser: it outlives a reload, and is the same in all its windows. */
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

  async load(path: string): Promise<IKept> {
    const found = (await this._storage.fetch(keyOf(path))) as Partial<IKept> | undefined;
    // What was kept while the store answered counts.
    const before = this.of(path);
    const kept = joined({ ...NOTHING_KEPT, ...found }, before);
    const isNew = !JSONExt.deepEqual(kept as never, before as never);
    if (isNew || !(path in this._store.state.kept)) {
      this._set(path, kept);
    }
    if (isNew) {
      this._decided.emit({ path, kind: 'kept' });
    }
    return kept;
  }

  async keep(path: string, more: IKept): Promise<void> {
    this._set(path, joined(this.of(path), more));
    this._decided.emit({ path, kind: 'kept' });
    const kept = await this.load(path);
    await this._storage.save(keyOf(path), kept as unknown as ReadonlyPartialJSONObject);
  }

  tookBack(path: string): void {
    this._decided.emit({ path, kind: 'taken back' });
  }

  async renamed(old: string, path: string): Promise<void> {
    await this.keep(path, await this.load(old));
    this._store.update(state => ({ ...state, kept: without(state.kept, old) }));
    await this._storage.remove(keyOf(old));
  }

  private _set(path: string, kept: IKept): void {
    this._store.update(state => ({ ...state, kept: { ...state.kept, [path]: kept } }));
  }

  private readonly _decided = new Signal<this, IDecision>(this);
}

function keyOf(path: string): string {
  return `${KEY}:${path}`;
}
