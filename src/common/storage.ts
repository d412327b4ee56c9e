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
  /** @param server - The base URL of the server, since a browser may use several. */
  constructor(server: string) {
    this._storage = localStorageOrNull();
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

  /**
   * Save an entry. If the quota is exceeded, the oldest others are removed, one by one.
   *
   * One that is too long, or has no room even so, is not saved: the former value and all others stay.
   */
  save(name: string, value: ReadonlyPartialJSONValue): Promise<void> {
    const key = this._prefix + name;
    const text = JSON.stringify({ time: Date.now(), value } satisfies IStoredEntry);
    const isNew = this._textOf(key) === '';
    if (
      text.length <= MAX_LENGTH &&
      (this._write(key, text) || this._writeInsteadOfOlder(key, text)) &&
      isNew
    ) {
      this._others(key).forEach(([other, time], place, { length }) => {
        if (time === 0 || length - place >= MAX_COUNT) {
          this._storage?.removeItem(other);
        }
      });
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
      const saved = JSON.parse(this._textOf(key)) as IStoredEntry;
      return Date.now() - saved.time < MAX_AGE ? saved : undefined;
    } catch {
      // There is no entry, or it is not valid.
      return undefined;
    }
  }

  /** Write an entry. Return whether the quota allowed it. */
  private _write(key: string, text: string): boolean {
    try {
      this._storage?.setItem(key, text);
      return true;
    } catch {
      return false;
    }
  }

  /** Remove the oldest other entries until one can be written; none if all were not enough. */
  private _writeInsteadOfOlder(key: string, text: string): boolean {
    const others = this._others(key).map(([other]) => [other, this._textOf(other)] as const);
    const isEnough = others.join('').length > text.length - this._textOf(key).length;
    const isWritten =
      isEnough &&
      others.some(([other]) => {
        this._storage?.removeItem(other);
        return this._write(key, text);
      });
    if (isEnough && !isWritten) {
      others.forEach(other => this._write(...other));
    }
    return isWritten;
  }

  /** The other entries with their times, from the oldest. Expired and invalid ones have the time 0. */
  private _others(key: string): (readonly [key: string, time: number])[] {
    return this._keys
      .filter(other => other !== key)
      .map(other => [other, this._read(other)?.time ?? 0] as const)
      .sort(([, one], [, other]) => one - other);
  }

  private _textOf(key: string): string {
    return this._storage?.getItem(key) ?? '';
  }

  /** Null if the browser denies access. */
  private readonly _storage: Storage | null;
  private readonly _prefix: string;
  private readonly _changed = new Signal<this, string>(this);
}

function localStorageOrNull(): Storage | null {
  try {
    return window.localStorage;
  } catch {
    // Blocking cookies blocks storage, too.
    return null;
  }
}
