import type { IStorage } from '../parts/storage';
import { BLANK, type Compose, NOTHING, writtenIn } from '../state/draft';

const KEY = 'panel';
/** Milliseconds within which what is typed is written down. */
const DEBOUNCE = 300;

/** What is needed of a store. */
type Kept = Pick<IStorage, 'fetch' | 'save'>;

/** What outlives a reload of the page: which chat was shown, and what was written and not sent. */
interface IRemembered {
  /** The chat that the sidebar showed; null for a new one. */
  chat: string | null;
  /** Texts by chat; that of a new one under the empty name. */
  drafts: Record<string, string>;
}

/** Keeps drafts and the like in the browser; what is attached to them, in the page alone. */
export class Memory {
  /**
   * @param _store - The browser's.
   * @param _own - That of this window, which may show another chat than others.
   */
  constructor(
    private readonly _storage: Kept,
    private readonly _own: Kept | null = null
  ) {
    this._writing = this.restored = this._restore();
    window.addEventListener('pagehide', () => this.flush());
    document.addEventListener('visibilitychange', () => this.flush());
  }

  /** What was remembered is there. */
  readonly restored: Promise<void>;

  /** The chat that the sidebar shows; null for a new one. */
  get chat(): string | null {
    return this._chat ?? null;
  }

  set chat(chat: string | null) {
    this._chat = chat;
    this._write(() => Promise.all([this._saveChat(this._storage), this._saveChat(this._own)]));
  }

  /** What was being written in a chat; in a new one for null. */
  draft(chat: string | null): Compose {
    return this._drafts.get(chat ?? '') ?? NOTHING;
  }

  /** Keeps what is being written: in a moment also beyond a reload. */
  setDraft(chat: string | null, draft: Compose): void {
    this._drafts.set(chat ?? '', draft);
    this._written.add(chat ?? '');
    this._timer ||= window.setTimeout(() => this.flush(), DEBOUNCE);
  }

  /** Writes down at once what is written: the page may be closed. */
  flush(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    const written = [...this._written];
    this._written.clear();
    if (written.length > 0) {
      this._write(() => this._saveDrafts(written));
    }
  }

  private async _restore(): Promise<void> {
    const [found, own] = await Promise.all([fetched(this._storage), fetched(this._own)]);
    // What happened meanwhile counts.
    if (this._chat === undefined) {
      this._chat = (own ?? found)?.chat ?? null;
    }
    for (const [chat, text] of Object.entries(found?.drafts ?? {})) {
      if (!this._drafts.has(chat)) {
        this._drafts.set(chat, { ...NOTHING, draft: { ...BLANK, text } });
      }
    }
  }

  private async _saveDrafts(written: readonly string[]): Promise<void> {
    const found = await fetched(this._storage);
    // Other windows have drafts of their own.
    const texts = new Map(Object.entries(found?.drafts ?? {}));
    written.forEach(each => texts.set(each, writtenIn(this._drafts.get(each) ?? NOTHING)));
    const drafts = Object.fromEntries([...texts].filter(([, text]) => text !== ''));
    await save(this._storage, { ...found, drafts });
  }

  /** Writes once what was written before is there: each reads what it adds to. */
  private _write(write: () => Promise<unknown>): void {
    this._writing = this._writing.then(write);
  }

  private async _saveChat(storage: Kept | null): Promise<void> {
    await save(storage, { ...(await fetched(storage)), chat: this.chat });
  }

  /** Undefined until it is known or was said. */
  private _chat: string | null | undefined;
  private readonly _drafts = new Map<string, Compose>();
  private _timer = 0;
  private _writing: Promise<unknown>;
  /** The chats in which something was written that is not written down. */
  private readonly _written = new Set<string>();
}

async function fetched(store: Kept | null): Promise<Partial<IRemembered> | undefined> {
  return (await store?.fetch(KEY)) as Partial<IRemembered> | undefined;
}

async function save(store: Kept | null, now: Partial<IRemembered>): Promise<void> {
  await store?.save(KEY, now);
}
