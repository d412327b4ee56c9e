import { BrowserStorage } from '../common/storage';
import { BLANK, type Compose, NOTHING } from '../state/compose';
import { PanelStorage } from './panelStorage';

const draft = (text: string, kept: Compose | null = null): Compose => ({
  ...{ kind: 'new', draft: { ...BLANK, text } },
  kept
});

const browser = (): BrowserStorage => new BrowserStorage('http://server/');

/** Return the drafts after a reload, by the chats' ids, and the current chat. */
async function reloaded(chats: string[]): Promise<(string | null)[]> {
  const memory = new PanelStorage(browser());
  await memory.restored;
  return [...chats.map(chat => memory.draft(chat).draft.text), memory.chat];
}

describe('a draft', () => {
  beforeEach(() => {
    localStorage.clear();
    jest.useFakeTimers();
  });
  afterEach(() => jest.useRealTimers());

  const write = (memory: PanelStorage, chat: string, text: string): void => {
    memory.setDraft(chat, text === '' ? NOTHING : draft(text));
    jest.advanceTimersByTime(1000);
  };

  it('is saved once for many keys, with a debounce', () => {
    const shared = browser();
    const saved = jest.spyOn(shared, 'save');
    const memory = new PanelStorage(shared);
    for (const text of ['H', 'He', 'Hel', 'Hello']) {
      memory.setDraft('c', draft(text));
    }
    expect(memory.draft('c').draft.text).toBe('Hello');
    jest.advanceTimersByTime(1000);
    expect(saved.mock.calls).toEqual([['draft:c', 'Hello']]);
  });

  it('is saved immediately when the page is closed', async () => {
    const memory = new PanelStorage(browser());
    memory.setDraft('', draft('Half', draft('Before')));
    window.dispatchEvent(new Event('pagehide'));
    expect(await reloaded([''])).toEqual(['Half\n\nBefore', null]);
    jest.advanceTimersByTime(1000);
    expect(localStorage).toHaveLength(1);
  });

  it.each(['', 'Mine', 'x'.repeat(300_000), 'x'.repeat(6_000_000)])(
    'changes no other draft, and not the current chat, however long it is (%#)',
    async text => {
      const [first, second] = [new PanelStorage(browser()), new PanelStorage(browser())];
      first.chat = 'c';
      write(first, 'd', 'Theirs');
      write(first, 'e', 'x'.repeat(300_000));
      write(first, 'c', 'Old');
      await second.restored;
      write(second, 'c', text);
      const now = text.length >= 6_000_000 ? 'Old' : text;
      expect(await reloaded(['d', 'e', 'c'])).toEqual(['Theirs', 'x'.repeat(300_000), now, 'c']);
    }
  );
});
