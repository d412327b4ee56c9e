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

describe('what is being written', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('is written down once, however many keys are pressed in a moment', async () => {
    const [browser, own] = [new Kept(), new Kept()];
    const memory = new PanelStorage(browser, own);
    for (const text of ['H', 'He', 'Hel', 'Hello']) {
      memory.setDraft('c', draft(text));
    }
    expect(memory.draft('c').draft.text).toBe('Hello');
    jest.advanceTimersByTime(1000);
    await settled();
    expect(browser.written).toEqual([{ drafts: { c: 'Hello' } }]);
    expect(own.written).toEqual([]);
  });

  it('is written down at once where the page is left', async () => {
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

  it('leaves alone what other windows write, and the chat that is shown', async () => {
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
