import type { IStorage } from '../common/storage';
import { BLANK, type Compose, NOTHING, writtenIn } from '../state/compose';

/** The entry with the chat that the sidebar showed; null for a new one. */
const CHAT = 'chat';
/** The prefix of a draft's entry, before the chat's id, which is empty for a new chat. */
const DRAFT = 'draft:';
/** Milliseconds by which saving a draft is debounced. */
const DEBOUNCE = 300;

/** The methods of a storage that are needed. */
type Kept = Pick<IStorage, 'entries' | 'fetch' | 'remove' | 'save'>;

/**
 * Stores drafts and the current chat in the browser. Attachments are kept in the page only.
 *
 * Each draft has an entry of its own: a long one, or another window, changes no other draft.
 */
export class PanelStorage {
  /**
   * @param _storage - The storage of the browser.
   * @param _own - The storage of this window, which may show another chat than others.
   */
  constructor(
    private readonly _storage: Kept,
    private readonly _own: Kept | null = null
  ) {
    this.restored = this._restore();
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
    void this._storage.save(CHAT, chat);
    void this._own?.save(CHAT, chat);
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
    for (const chat of this._written) {
      const text = writtenIn(this.draft(chat));
      const name = DRAFT + chat;
      void (text === '' ? this._storage.remove(name) : this._storage.save(name, text));
      if (chat === '') {
        // Each window has a new chat of its own: an empty draft there hides that of another window.
        void this._own?.save(name, text);
      }
    }
    this._written.clear();
  }

  private async _restore(): Promise<void> {
    for (const storage of [this._own, this._storage]) {
      const chat = (await storage?.fetch(CHAT)) as string | null | undefined;
      // Keep what was set meanwhile.
      if (this._chat === undefined) {
        this._chat = chat;
      }
      for (const [name, text] of (await storage?.entries(DRAFT)) ?? []) {
        if (!this._drafts.has(name)) {
          this._drafts.set(name, { ...NOTHING, draft: { ...BLANK, text: (text ?? '') as string } });
        }
      }
    }
  }

  /** Undefined until it was read or set. */
  private _chat: string | null | undefined;
  private readonly _drafts = new Map<string, Compose>();
  private _timer = 0;
  /** The chats whose draft is not saved. */
  private readonly _written = new Set<string>();
}
