import { BrowserStorage } from '../common/storage';
import { type AppStore, createStore, withDraft } from '../state/app';
import { BLANK } from '../state/compose';
import { PanelStorage } from './panelStorage';

const browser = (): BrowserStorage => new BrowserStorage('http://server/');

/** Return the drafts after a reload, by the chats' ids, and the current chat. */
async function reloaded(chats: string[]): Promise<(string | null)[]> {
  const store = createStore();
  const memory = new PanelStorage(browser(), store);
  await memory.restored;
  return [...chats.map(chat => store.state.drafts[chat]?.text ?? ''), memory.chat];
}

/** The storage of a page. */
async function page(): Promise<{ memory: PanelStorage; store: AppStore }> {
  const store = createStore();
  const memory = new PanelStorage(browser(), store);
  await memory.restored;
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

  it('is saved with the former one immediately when the page is closed', async () => {
    const { store } = await page();
    const draft = { ...BLANK, text: 'Half', before: { ...BLANK, text: 'Before' } };
    store.update(state => withDraft(state, 'c', draft));
    window.dispatchEvent(new Event('pagehide'));
    expect(await reloaded(['c'])).toEqual(['Half\n\nBefore', null]);
    jest.advanceTimersByTime(1000);
    expect(localStorage).toHaveLength(1);
  });

  it.each(['', 'Mine', 'x'.repeat(300_000), 'x'.repeat(6_000_000)])(
    'changes no other draft, and not the current chat, however long it is (%#)',
    async text => {
      const [first, second] = [await page(), await page()];
      first.memory.chat = 'c';
      write(first, 'd', 'Theirs');
      write(first, 'e', 'x'.repeat(300_000));
      write(first, 'c', 'Old');
      write(second, 'c', 'New');
      write(second, 'c', text);
      const now = text.length >= 6_000_000 ? 'New' : text;
      expect(await reloaded(['d', 'e', 'c'])).toEqual(['Theirs', 'x'.repeat(300_000), now, 'c']);
    }
  );
});
