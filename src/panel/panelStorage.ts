import { type ISignal, Signal } from '@lumino/signaling';

import type { IStorage } from '../common/storage';
import { BLANK, type Compose, isBlank, joinDrafts, NOTHING, writtenIn } from '../state/compose';

/** The entry with the chat that the sidebar showed; null for a new one. */
const CHAT = 'chat';
/** The prefix of a draft's entry, before its name. */
const DRAFT = 'draft:';
/** Milliseconds by which saving a draft is debounced. */
const DEBOUNCE = 300;

/** The methods of a storage that are needed. */
type Kept = Pick<IStorage, 'entries' | 'fetch' | 'remove' | 'save'>;

/**
 * The drafts and the current chat, stored in the browser. Attachments are kept in the page only.
 *
 * A draft belongs to its chat: its name is the chat's id. That of a new chat belongs to its panel: it is
 * empty for the sidebar. Each draft has an entry of its own: a long one changes no other draft.
 */
export class PanelStorage {
  constructor(private readonly _storage: Kept) {
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
  }

  /** Emitted with the name of a draft that was set. */
  get changed(): ISignal<this, string> {
    return this._changed;
  }

  /** Return a draft. */
  draft(name: string): Compose {
    return this._drafts.get(name) ?? NOTHING;
  }

  /** Set a draft. It is saved with a debounce. */
  setDraft(name: string, draft: Compose): void {
    this._drafts.set(name, draft);
    this._written.add(name);
    this._timer ||= window.setTimeout(() => this.flush(), DEBOUNCE);
    this._changed.emit(name);
  }

  /** Move a draft behind another one. */
  moveDraft(from: string, to: string): void {
    const left = this.draft(from);
    if (from !== to && !isBlank(left)) {
      this.setDraft(from, NOTHING);
      this.setDraft(to, joinDrafts(this.draft(to), left));
    }
  }

  /** Save changed drafts now, since the page may be closed. */
  flush(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    for (const name of this._written) {
      const text = writtenIn(this.draft(name));
      void (text === ''
        ? this._storage.remove(DRAFT + name)
        : this._storage.save(DRAFT + name, text));
    }
    this._written.clear();
  }

  private async _restore(): Promise<void> {
    const chat = (await this._storage.fetch(CHAT)) as string | null | undefined;
    // Keep what was set meanwhile.
    if (this._chat === undefined) {
      this._chat = chat;
    }
    for (const [name, text] of await this._storage.entries(DRAFT)) {
      if (!this._drafts.has(name)) {
        this._drafts.set(name, { ...NOTHING, draft: { ...BLANK, text: (text ?? '') as string } });
      }
    }
  }

  /** Undefined until it was read or set. */
  private _chat: string | null | undefined;
  private readonly _drafts = new Map<string, Compose>();
  private _timer = 0;
  /** The names of the drafts that are not saved. */
  private readonly _written = new Set<string>();
  private readonly _changed = new Signal<this, string>(this);
}
