import type { IStateDB } from '@jupyterlab/statedb';
import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

/** So many things are remembered of a server; beyond, the oldest ones go. */
const MAX_COUNT = 500;
/** So many characters of one thing. */
const MAX_LENGTH = 500_000;
/** So many milliseconds after it was saved last: longer than a server's journal remembers. */
const MAX_AGE = 180 * 86_400_000;

/** What outlives a reload. */
export interface IStorage extends Pick<IStateDB, 'fetch' | 'save' | 'remove'> {
  /** Emitted with a name when another page has saved or removed what is under it. */
  readonly changed: ISignal<IStorage, string>;
}

/** What is saved of a thing. */
interface ISaved {
  /** When, in milliseconds since the epoch. */
  time: number;
  value: ReadonlyPartialJSONValue;
}

/**
 * Remembers things of a server in this browser, the same in all its pages.
 *
 * JupyterLab's own state is another one in each workspace, and in Notebook 7 there is none that
 * outlives the page.
 */
export class BrowserStorage implements IStorage {
  /**
   * @param server - Its base URL: a browser knows several.
   * @param where - Whether it is the browser's, or that of one window of it.
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

  /** Saves something; what is too long is forgotten. */
  save(name: string, value: ReadonlyPartialJSONValue): Promise<void> {
    const key = this._prefix + name;
    const text = JSON.stringify({ time: Date.now(), value } satisfies ISaved);
    if (text.length > MAX_LENGTH) {
      this._storage?.removeItem(key);
    } else {
      let count = this._keys.length;
      // The browser gives a site so much and no more.
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

  private _read(key: string): ISaved | undefined {
    try {
      const saved = JSON.parse(this._storage?.getItem(key) ?? 'null') as ISaved | null;
      return saved !== null && Date.now() - saved.time < MAX_AGE ? saved : undefined;
    } catch {
      // Somebody else wrote it.
      return undefined;
    }
  }

  /** Whether there was room. */
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

  /** Forgets what is too old, and all but the newest. */
  private _forget(count: number): void {
    const keys = this._keys;
    const times = keys.map(key => [key, this._read(key)?.time ?? 0] as const);
    const newest = times.filter(([, time]) => time > 0).sort(([, one], [, other]) => other - one);
    const stay = new Set(newest.slice(0, count).map(([key]) => key));
    keys.filter(key => !stay.has(key)).forEach(key => this._storage?.removeItem(key));
  }

  /** Null where the browser lets pages keep nothing. */
  private readonly _storage: Storage | null;
  private readonly _prefix: string;
  private readonly _changed = new Signal<this, string>(this);
}

function storageOf(where: 'localStorage' | 'sessionStorage'): Storage | null {
  try {
    return window[where];
  } catch {
    // Cookies of this site are blocked, and this with them.
    return null;
  }
}
