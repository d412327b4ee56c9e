import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';

/** Maximum age of an entry in milliseconds. */
const MAX_AGE = 180 * 86_400_000;

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
export class BrowserStorage {
  /** @param server - The base URL of the server, since a browser may use several. */
  constructor(server: string) {
    this._storage = localStorageOrNull();
    this._prefix = `tk-ai-extension ${server} `;
    for (const key of this._keys.filter(each => this._read(each) === undefined)) {
      this._storage?.removeItem(key);
    }
  }

  fetch(name: string): ReadonlyPartialJSONValue | undefined {
    return this._read(this._prefix + name)?.value;
  }

  /** Return the entries with a prefix in their names, by the rest of the name. */
  entries(prefix: string): [string, ReadonlyPartialJSONValue | undefined][] {
    const start = this._prefix + prefix;
    const keys = this._keys.filter(key => key.startsWith(start));
    return keys.map(key => [key.slice(start.length), this._read(key)?.value]);
  }

  /** Save an entry. If the browser has no room for it, the former value stays. */
  save(name: string, value: ReadonlyPartialJSONValue): void {
    const entry: IStoredEntry = { time: Date.now(), value };
    try {
      this._storage?.setItem(this._prefix + name, JSON.stringify(entry));
    } catch {
      // The quota is exceeded.
    }
  }

  remove(name: string): void {
    this._storage?.removeItem(this._prefix + name);
  }

  private get _keys(): string[] {
    return Object.keys(this._storage ?? {}).filter(key => key.startsWith(this._prefix));
  }

  private _read(key: string): IStoredEntry | undefined {
    try {
      const saved = JSON.parse(this._storage?.getItem(key) ?? '') as IStoredEntry;
      return Date.now() - saved.time < MAX_AGE ? saved : undefined;
    } catch {
      // There is no entry, or it is not valid.
      return undefined;
    }
  }

  /** Null if the browser denies access. */
  private readonly _storage: Storage | null;
  private readonly _prefix: string;
}

function localStorageOrNull(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    // Blocking cookies blocks storage, too.
    return null;
  }
}
