import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';

import { BrowserStorage } from '../common/storage';
import { BLANK, type Compose, NOTHING } from '../state/compose';
import { PanelStorage } from './panelStorage';

/** The storage of one window. */
class Kept {
  readonly values = new Map<string, ReadonlyPartialJSONValue>();

  fetch(name: string): Promise<ReadonlyPartialJSONValue | undefined> {
    return Promise.resolve(this.values.get(name));
  }

  entries(prefix: string): Promise<[string, ReadonlyPartialJSONValue][]> {
    const found = [...this.values].filter(([name]) => name.startsWith(prefix));
    return Promise.resolve(found.map(([name, value]) => [name.slice(prefix.length), value]));
  }

  save(name: string, value: ReadonlyPartialJSONValue): Promise<void> {
    this.values.set(name, value);
    return Promise.resolve();
  }

  remove(name: string): Promise<void> {
    this.values.delete(name);
    return Promise.resolve();
  }
}

const draft = (text: string, kept: Compose | null = null): Compose => ({
  ...{ kind: 'new', draft: { ...BLANK, text } },
  kept
});

const browser = (): BrowserStorage => new BrowserStorage('http://server/');

/** Return the drafts after a reload, by the chats' ids, and the current chat. */
async function reloaded(chats: string[], own?: Kept): Promise<(string | null)[]> {
  const memory = new PanelStorage(browser(), own);
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
    const [shared, own] = [new Kept(), new Kept()];
    const saved = jest.spyOn(shared, 'save');
    const memory = new PanelStorage(shared, own);
    for (const text of ['H', 'He', 'Hel', 'Hello']) {
      memory.setDraft('c', draft(text));
    }
    expect(memory.draft('c').draft.text).toBe('Hello');
    jest.advanceTimersByTime(1000);
    expect(saved.mock.calls).toEqual([['draft:c', 'Hello']]);
    expect([...own.values]).toEqual([['draft:c', 'Hello']]);
  });

  it('of a new chat is that of its own window after a reload, be it empty', async () => {
    const [a, b] = [new Kept(), new Kept()];
    const [first, second] = [new PanelStorage(browser(), a), new PanelStorage(browser(), b)];
    first.chat = 'c';
    write(first, '', 'A');
    write(second, '', 'B');
    expect([await reloaded([''], a), await reloaded([''], b)]).toEqual([
      ['A', 'c'],
      ['B', 'c']
    ]);
    write(first, '', '');
    write(second, '', 'B2');
    expect([await reloaded([''], a), await reloaded([''], b)]).toEqual([
      ['', 'c'],
      ['B2', 'c']
    ]);
  });

  it('is saved immediately when the page is closed', async () => {
    const memory = new PanelStorage(browser());
    memory.setDraft('', draft('Half', draft('Before')));
    window.dispatchEvent(new Event('pagehide'));
    expect(await reloaded([''])).toEqual(['Half\n\nBefore', null]);
    jest.advanceTimersByTime(1000);
    expect(localStorage).toHaveLength(1);
  });

  it.each(['', 'Mine', 'x'.repeat(300_000), 'x'.repeat(500_001)])(
    'changes no other draft, and not the current chat, however long it is (%#)',
    async text => {
      const [first, second] = [new PanelStorage(browser()), new PanelStorage(browser())];
      first.chat = 'c';
      write(first, 'd', 'Theirs');
      write(first, 'e', 'x'.repeat(300_000));
      write(first, 'c', 'Old');
      await second.restored;
      write(second, 'c', text);
      const now = text.length > 500_000 ? 'Old' : text;
      expect(await reloaded(['d', 'e', 'c'])).toEqual(['Theirs', 'x'.repeat(300_000), now, 'c']);
    }
  );
});
