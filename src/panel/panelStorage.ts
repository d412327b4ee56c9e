import type { BrowserStorage } from '../common/storage';
import type { AppStore, IAppState } from '../state/app';
import { BLANK } from '../state/compose';

/** The entry with the chat that the sidebar showed; null for a new one. */
const CHAT = 'chat';
/** The prefix of a draft's entry, before its name. */
const DRAFT = 'draft:';
/** Milliseconds by which saving a draft is debounced. */
const DEBOUNCE = 300;

/** Stores the texts of the drafts and the current chat in the browser. Each draft has its own entry. */
export class PanelStorage {
  constructor(
    private readonly _storage: BrowserStorage,
    private readonly _store: AppStore
  ) {
    const texts = _storage.entries(DRAFT) as [string, string][];
    this._saved = Object.fromEntries(texts.map(([name, text]) => [name, { ...BLANK, text }]));
    _store.update(state => ({ ...state, drafts: this._saved }));
    _store.subscribe(() => {
      if (_store.state.drafts !== this._saved) {
        this._timer ||= window.setTimeout(() => this.flush(), DEBOUNCE);
      }
    });
    window.addEventListener('pagehide', () => this.flush());
    document.addEventListener('visibilitychange', () => this.flush());
  }

  /** The chat that the sidebar shows; null for a new one. */
  get chat(): string | null {
    return (this._storage.fetch(CHAT) as string | undefined) ?? null;
  }

  set chat(chat: string | null) {
    this._storage.save(CHAT, chat);
  }

  /** Save changed drafts now, since the page may be closed. */
  flush(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    const before = this._saved;
    const { drafts } = this._store.state;
    this._saved = drafts;
    for (const name of new Set([...Object.keys(before), ...Object.keys(drafts)])) {
      const text = drafts[name]?.text ?? '';
      if (before[name] === drafts[name]) {
        continue;
      } else if (text === '') {
        this._storage.remove(DRAFT + name);
      } else {
        this._storage.save(DRAFT + name, text);
      }
    }
  }

  /** The drafts when they were last saved. */
  private _saved: IAppState['drafts'];
  private _timer = 0;
}
