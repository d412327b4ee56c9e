import type { IStateDB } from '@jupyterlab/statedb';
import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

/** Maximum number of entries of a server. The oldest are removed first. */
const MAX_COUNT = 500;
/** Maximum characters of an entry. */
const MAX_LENGTH = 500_000;
/** Maximum age of an entry in milliseconds: longer than that of a server's journal. */
const MAX_AGE = 180 * 86_400_000;

/** A storage that outlives a reload. */
export interface IStorage extends Pick<IStateDB, 'fetch' | 'save' | 'remove'> {
  /** Emitted with the name of an entry that another page has saved or removed. */
  readonly changed: ISignal<IStorage, string>;

  /** Return the entries whose names begin with a prefix, by the rest of the name. */
  entries(prefix: string): Promise<[string, ReadonlyPartialJSONValue | undefined][]>;
}

/** A stored entry. */
interface IStoredEntry {
  /** Time of the save, in milliseconds since the epoch. */
  time: number;
  value: ReadonlyPartialJSONValue;
}

/**
 * Stores entries of a server in this browser, shared by all its pages.
 *
 * JupyterLab's own state database is separate in each workspace, and in Notebook 7 it does not outlive
 * the page.
 */
export class BrowserStorage implements IStorage {
  /**
   * @param server - The base URL of the server, since a browser may use several.
   * @param where - Whether entries are shared by all windows, or of one window.
   */
  constructor(server: string, where: 'localStorage' | 'sessionStorage' = 'localStorage') {
    this._storage = storageOf(where);
    this._prefix = `tk-ai-extension ${server} `;
    window.addEventListener('storage', ({ storageArea, key }) => {
      if (storageArea === this._storage && key?.startsWith(this._prefix) === true) {
        this._changed.emit(key.slice(this._prefix.length));
      }
    });
  }

  get changed(): ISignal<this, string> {
    return this._changed;
  }

  fetch(name: string): Promise<ReadonlyPartialJSONValue | undefined> {
    return Promise.resolve(this._read(this._prefix + name)?.value);
  }

  entries(prefix: string): Promise<[string, ReadonlyPartialJSONValue | undefined][]> {
    const start = this._prefix + prefix;
    const keys = this._keys.filter(key => key.startsWith(start));
    return Promise.resolve(keys.map(key => [key.slice(start.length), this._read(key)?.value]));
  }

  /** Save an entry. One that is too long is not saved, and the former value stays. */
  save(name: string, value: ReadonlyPartialJSONValue): Promise<void> {
    const key = this._prefix + name;
    const text = JSON.stringify({ time: Date.now(), value } satisfies IStoredEntry);
    if (text.length <= MAX_LENGTH) {
      let count = this._keys.length;
      // The quota is exceeded: remove older entries.
      while (!this._write(key, text) && count > 0) {
        count = Math.floor(count / 2);
        this._forget(count);
      }
    }
    return Promise.resolve();
  }

  remove(name: string): Promise<void> {
    this._storage?.removeItem(this._prefix + name);
    return Promise.resolve();
  }

  private get _keys(): string[] {
    return Object.keys(this._storage ?? {}).filter(key => key.startsWith(this._prefix));
  }

  private _read(key: string): IStoredEntry | undefined {
    try {
      const saved = JSON.parse(this._storage?.getItem(key) ?? 'null') as IStoredEntry | null;
      return saved !== null && Date.now() - saved.time < MAX_AGE ? saved : undefined;
    } catch {
      // The entry is not valid.
      return undefined;
    }
  }

  /** Write an entry. Return whether the quota allowed it. */
  private _write(key: string, text: string): boolean {
    try {
      if (this._storage?.getItem(key) === null) {
        this._forget(MAX_COUNT - 1);
      }
      this._storage?.setItem(key, text);
      return true;
    } catch {
      return false;
    }
  }

  /** Remove expired entries, and all but the newest `count`. */
  private _forget(count: number): void {
    const keys = this._keys;
    const times = keys.map(key => [key, this._read(key)?.time ?? 0] as const);
    const newest = times.filter(([, time]) => time > 0).sort(([, one], [, other]) => other - one);
    const stay = new Set(newest.slice(0, count).map(([key]) => key));
    keys.filter(key => !stay.has(key)).forEach(key => this._storage?.removeItem(key));
  }

  /** Null if the browser denies access. */
  private readonly _storage: Storage | null;
  private readonly _prefix: string;
  private readonly _changed = new Signal<this, string>(this);
}

function storageOf(where: 'localStorage' | 'sessionStorage'): Storage | null {
  try {
    return window[where];
  } catch {
    // Blocking cookies blocks storage, too.
    return null;
  }
}
