import type { IStore } from '../parts/store';
import { BLANK, type IDraft, writtenIn } from './draft';

const KEY = 'panel';

/** What is needed of a store. */
type Kept = Pick<IStore, 'fetch' | 'save'>;

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
    private readonly _store: Kept,
    private readonly _own: Kept | null = null
  ) {
    this.restored = this._restore();
  }

  /** What was remembered is there. */
  readonly restored: Promise<void>;

  /** The chat that the sidebar shows; null for a new one. */
  get chat(): string | null {
    return this._chat ?? null;
  }

  set chat(chat: string | null) {
    this._chat = chat;
    this._save();
  }

  /** What was being written in a chat; in a new one for null. */
  draft(chat: string | null): IDraft {
    return this._drafts.get(chat ?? '') ?? BLANK;
  }

  setDraft(chat: string | null, draft: IDraft): void {
    this._drafts.set(chat ?? '', draft);
    this._written.add(chat ?? '');
    this._save();
  }

  private async _restore(): Promise<void> {
    const [found, own] = await Promise.all([fetched(this._store), fetched(this._own)]);
    // What happened meanwhile counts.
    if (this._chat === undefined) {
      this._chat = (own ?? found)?.chat ?? null;
    }
    for (const [chat, text] of Object.entries(found?.drafts ?? {})) {
      if (!this._drafts.has(chat)) {
        this._drafts.set(chat, { ...BLANK, text });
      }
    }
  }

  private _save(): void {
    void this.restored.then(async () => {
      const { chat } = this;
      // Other windows have drafts of their own.
      const texts = new Map(Object.entries((await fetched(this._store))?.drafts ?? {}));
      this._written.forEach(each => texts.set(each, writtenIn(this._drafts.get(each) ?? BLANK)));
      const drafts = Object.fromEntries([...texts].filter(([, text]) => text !== ''));
      await Promise.all([save(this._store, { chat, drafts }), save(this._own, { chat })]);
    });
  }

  /** Undefined until it is known or was said. */
  private _chat: string | null | undefined;
  private readonly _drafts = new Map<string, IDraft>();
  /** The chats in which something was written in this page. */
  private readonly _written = new Set<string>();
}

async function fetched(store: Kept | null): Promise<Partial<IRemembered> | undefined> {
  return (await store?.fetch(KEY)) as Partial<IRemembered> | undefined;
}

async function save(store: Kept | null, now: Partial<IRemembered>): Promise<void> {
  await store?.save(KEY, now);
}
