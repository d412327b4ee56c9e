import type { BrowserStorage } from '../common/storage';
import type { AppStore, IAppState } from '../state/app';
import { BLANK, writtenIn } from '../state/compose';

/** The entry with the chat that the sidebar showed; null for a new one. */
const CHAT = 'chat';
/** The prefix of a draft's entry, before its name. */
const DRAFT = 'draft:';
/** Milliseconds by which saving a draft is debounced. */
const DEBOUNCE = 300;

/** Stores the texts of the drafts and the current chat in the browser. Each draft has its own entry. */
export class PanelStorage {
  constructor(
    private readonly _storage: Pick<BrowserStorage, 'entries' | 'fetch' | 'remove' | 'save'>,
    private readonly _store: AppStore
  ) {
    this.restored = this._restore();
    _store.subscribe(() => {
      if (_store.state.drafts !== this._saved) {
        this._timer ||= window.setTimeout(() => this.flush(), DEBOUNCE);
      }
    });
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

  /** Save changed drafts now, since the page may be closed. */
  flush(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    const before = this._saved;
    const { drafts } = this._store.state;
    this._saved = drafts;
    for (const name of new Set([...Object.keys(before), ...Object.keys(drafts)])) {
      if (before[name] !== drafts[name]) {
        const text = writtenIn(drafts[name] ?? BLANK);
        void (text === ''
          ? this._storage.remove(DRAFT + name)
          : this._storage.save(DRAFT + name, text));
      }
    }
  }

  private async _restore(): Promise<void> {
    const chat = (await this._storage.fetch(CHAT)) as string | null | undefined;
    // Keep what was set by now.
    if (this._chat === undefined) {
      this._chat = chat;
    }
    const texts = (await this._storage.entries(DRAFT)) as [string, string][];
    const stored = Object.fromEntries(texts.map(([name, text]) => [name, { ...BLANK, text }]));
    this._saved = stored;
    this._store.update(state => ({ ...state, drafts: { ...stored, ...state.drafts } }));
  }

  /** Undefined until it was read or set. */
  private _chat: string | null | undefined;
  /** The drafts when they were last saved. */
  private _saved: IAppState['drafts'] = {};
  private _timer = 0;
}
