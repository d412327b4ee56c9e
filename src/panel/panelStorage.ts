import type { IStorage } from '../common/storage';
import { BLANK, type Compose, NOTHING, writtenIn } from '../state/compose';

const KEY = 'panel';
/** Milliseconds by which saving a draft is debounced. */
const DEBOUNCE = 300;

/** The methods of a storage that are needed. */
type Kept = Pick<IStorage, 'fetch' | 'save'>;

/** The stored state: the current chat, and drafts. */
interface IRemembered {
  /** The chat that the sidebar showed; null for a new one. */
  chat: string | null;
  /** Texts by the chat's id; that of a new chat under the empty string. */
  drafts: Record<string, string>;
}

/** Stores drafts and the current chat in the browser. Attachments are kept in the page only. */
export class PanelStorage {
  /**
   * @param _storage - The storage of the browser.
   * @param _own - The storage of this window, which may show another chat than others.
   */
  constructor(
    private readonly _storage: Kept,
    private readonly _own: Kept | null = null
  ) {
    this._writing = this.restored = this._restore();
    window.addEventListener('pagehide', () => this.flush());
    document.addEventListener('visibilitychange', () => this.flush());
  }

  /** Settled once the stored state was read. */
  readonly restored: Promise<void>;

  /** The chat that the sidebar shows; null for a new one. */
  get chat(): string | null {
    return this._chat ?? null;
  }

  set chat(chat: string | null) {
    this._chat = chat;
    this._write(storage => this._saveChat(storage));
  }

  /** Return the draft in a chat; in a new chat for null. */
  draft(chat: string | null): Compose {
    return this._drafts.get(chat ?? '') ?? NOTHING;
  }

  /** Set the draft in a chat. It is saved with a debounce. */
  setDraft(chat: string | null, draft: Compose): void {
    this._drafts.set(chat ?? '', draft);
    this._written.add(chat ?? '');
    this._timer ||= window.setTimeout(() => this.flush(), DEBOUNCE);
  }

  /** Save changed drafts now, since the page may be closed. */
  flush(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    const written = [...this._written];
    this._written.clear();
    if (written.length > 0) {
      this._write(storage => this._saveDrafts(storage, written));
    }
  }

  private async _restore(): Promise<void> {
    const [found, own] = await Promise.all([fetched(this._storage), fetched(this._own)]);
    const { chat = null } = { ...found, ...own };
    // Keep what was set meanwhile.
    if (this._chat === undefined) {
      this._chat = chat;
    }
    for (const [chat, text] of Object.entries({ ...found?.drafts, ...own?.drafts })) {
      if (!this._drafts.has(chat)) {
        this._drafts.set(chat, { ...NOTHING, draft: { ...BLANK, text } });
      }
    }
  }

  private async _saveDrafts(storage: Kept | null, written: readonly string[]): Promise<void> {
    const found = await fetched(storage);
    // Keep the drafts of other windows.
    const texts = new Map(Object.entries(found?.drafts ?? {}));
    // Each window has a new chat of its own: an empty draft there hides that of another window.
    const isOwn = storage === this._own;
    written
      .filter(each => !isOwn || each === '')
      .forEach(each => texts.set(each, writtenIn(this._drafts.get(each) ?? NOTHING)));
    const some = [...texts].filter(([, text]) => isOwn || text !== '');
    await save(storage, { ...found, drafts: Object.fromEntries(some) });
  }

  /** Queue a write to both storages, since each reads the stored state first. */
  private _write(write: (storage: Kept | null) => Promise<void>): void {
    this._writing = this._writing.then(() => Promise.all([this._storage, this._own].map(write)));
  }

  private async _saveChat(storage: Kept | null): Promise<void> {
    await save(storage, { ...(await fetched(storage)), chat: this.chat });
  }

  /** Undefined until it was read or set. */
  private _chat: string | null | undefined;
  private readonly _drafts = new Map<string, Compose>();
  private _timer = 0;
  private _writing: Promise<unknown>;
  /** The chats whose draft is not saved. */
  private readonly _written = new Set<string>();
}

async function fetched(store: Kept | null): Promise<Partial<IRemembered> | undefined> {
  return (await store?.fetch(KEY)) as Partial<IRemembered> | undefined;
}

async function save(store: Kept | null, now: Partial<IRemembered>): Promise<void> {
  await store?.save(KEY, now);
}
