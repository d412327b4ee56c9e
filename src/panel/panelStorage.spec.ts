import { BrowserStorage } from '../common/storage';
import { type AppStore, createStore, withDraft } from '../state/app';
import { BLANK } from '../state/compose';
import { PanelStorage } from './panelStorage';

const browser = (): BrowserStorage => new BrowserStorage('http://server/');

/** Return the drafts after a reload, by the chats' ids, and the current chat. */
function reloaded(chats: string[]): (string | null)[] {
  const store = createStore();
  const memory = new PanelStorage(browser(), store);
  return [...chats.map(chat => store.state.drafts[chat]?.text ?? ''), memory.chat];
}

/** The storage of a page. */
function page(): { memory: PanelStorage; store: AppStore } {
  const store = createStore();
  const memory = new PanelStorage(browser(), store);
  return { memory, store };
}

describe('a draft', () => {
  beforeEach(() => {
    localStorage.clear();
    jest.useFakeTimers();
  });
  afterEach(() => jest.useRealTimers());

  const write = ({ store }: { store: AppStore }, chat: string, text: string): void => {
    store.update(state => withDraft(state, chat, text === '' ? BLANK : { ...BLANK, text }));
    jest.advanceTimersByTime(1000);
  };

  it('is saved immediately when the page is closed', () => {
    const { store } = page();
    store.update(state => withDraft(state, 'c', { ...BLANK, text: 'Half' }));
    window.dispatchEvent(new Event('pagehide'));
    expect(reloaded(['c'])).toEqual(['Half', null]);
    jest.advanceTimersByTime(1000);
    expect(localStorage).toHaveLength(1);
  });

  it.each(['', 'Mine', 'x'.repeat(300_000), 'x'.repeat(6_000_000)])(
    'changes no other draft, and not the current chat, however long it is (%#)',
    text => {
      const [first, second] = [page(), page()];
      first.memory.chat = 'c';
      write(first, 'd', 'Theirs');
      write(first, 'e', 'x'.repeat(300_000));
      write(first, 'c', 'Old');
      write(second, 'c', 'New');
      write(second, 'c', text);
      const now = text.length >= 6_000_000 ? 'New' : text;
      expect(reloaded(['d', 'e', 'c'])).toEqual(['Theirs', 'x'.repeat(300_000), now, 'c']);
    }
  );
});
