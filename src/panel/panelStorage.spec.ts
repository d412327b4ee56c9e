import { BLANK, type Compose, NOTHING } from '../state/compose';
import { PanelStorage } from './panelStorage';

/** A storage that counts what is written. */
class Kept {
  readonly written: unknown[] = [];

  constructor(private _value?: object) {}

  fetch(): Promise<never> {
    return Promise.resolve(this._value as never);
  }

  save(_: string, value: unknown): Promise<void> {
    this._value = value as object;
    this.written.push(value);
    return Promise.resolve();
  }
}

const draft = (text: string, kept: Compose | null = null): Compose => ({
  ...{ kind: 'new', draft: { ...BLANK, text } },
  kept
});

async function settled(): Promise<void> {
  for (let step = 0; step < 20; step++) {
    await Promise.resolve();
  }
}

describe('a draft', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('is saved once for many keys, with a debounce', async () => {
    const [browser, own] = [new Kept(), new Kept()];
    const memory = new PanelStorage(browser, own);
    for (const text of ['H', 'He', 'Hel', 'Hello']) {
      memory.setDraft('c', draft(text));
    }
    expect(memory.draft('c').draft.text).toBe('Hello');
    jest.advanceTimersByTime(1000);
    await settled();
    expect(browser.written).toEqual([{ drafts: { c: 'Hello' } }]);
    expect(own.written).toEqual([{ drafts: {} }]);
  });

  it('of a new chat is that of its own window after a reload, be it empty', async () => {
    const browser = new Kept({ chat: 'c' });
    const [a, b] = [new Kept(), new Kept()];
    const reloaded = async (own: Kept): Promise<[string, string | null]> => {
      const memory = new PanelStorage(browser, own);
      await memory.restored;
      return [memory.draft(null).draft.text, memory.chat];
    };
    const [first, second] = [new PanelStorage(browser, a), new PanelStorage(browser, b)];
    for (const [memory, text] of [
      [first, 'A'],
      [second, 'B']
    ] as const) {
      memory.setDraft(null, draft(text));
      jest.advanceTimersByTime(1000);
      await settled();
    }
    expect([await reloaded(a), await reloaded(b)]).toEqual([
      ['A', 'c'],
      ['B', 'c']
    ]);
    first.setDraft(null, NOTHING);
    jest.advanceTimersByTime(1000);
    await settled();
    second.setDraft(null, draft('B2'));
    jest.advanceTimersByTime(1000);
    await settled();
    expect([await reloaded(a), await reloaded(b)]).toEqual([
      ['', 'c'],
      ['B2', 'c']
    ]);
  });

  it('is saved immediately when the page is closed', async () => {
    const browser = new Kept();
    const memory = new PanelStorage(browser);
    memory.setDraft(null, draft('Half', draft('Before')));
    window.dispatchEvent(new Event('pagehide'));
    await settled();
    expect(browser.written).toEqual([{ drafts: { '': 'Half\n\nBefore' } }]);
    jest.advanceTimersByTime(1000);
    await settled();
    expect(browser.written).toHaveLength(1);
  });

  it('keeps the drafts of other windows, and the current chat', async () => {
    const browser = new Kept({ chat: 'a', drafts: { d: 'Theirs', c: 'Old' } });
    const memory = new PanelStorage(browser);
    await memory.restored;
    expect(memory.draft('d').draft.text).toBe('Theirs');
    memory.setDraft('c', NOTHING);
    memory.chat = 'c';
    jest.advanceTimersByTime(1000);
    await settled();
    expect(browser.written.at(-1)).toEqual({ chat: 'c', drafts: { d: 'Theirs' } });
  });
});
