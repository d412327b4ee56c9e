import { Notification } from '@jupyterlab/apputils';
import { InlineCompletionTriggerKind } from '@jupyterlab/completer';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { responseOf, serverSettings } from '../testing/server';
import { GhostText, PAUSE } from './ghostText';

const trans = nullTranslator.load('tk-ai-extension');

interface IAsked {
  body: { prefix: string; suffix: string; above: unknown[]; language: string; notebook: string };
  signal: AbortSignal;
  answer: (body: object, status?: number) => void;
}

const { Automatic, Invoke } = InlineCompletionTriggerKind;

/** A notebook in which a person types, with what the server was asked. */
function stage(...above: string[]) {
  const asked: IAsked[] = [];
  const settings = serverSettings(
    ({ body, signal }) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('aborted')));
        const answer: IAsked['answer'] = (found, status) => resolve(responseOf(found, status));
        asked.push({ body: JSON.parse(body) as IAsked['body'], signal, answer });
      })
  );
  const cellOf = (source: string) => {
    const shared = { source, changed: new Signal<object, object>({}) };
    return { id: source, type: 'code', sharedModel: shared };
  };
  let offset = 0;
  const cell = {
    model: cellOf(''),
    editor: { getCursorPosition: () => offset, getOffsetAt: (place: number) => place }
  };
  const widgets = [...above.map(source => ({ model: cellOf(source) })), cell];
  const content = { activeCell: cell, widgets, codeMimetype: 'text/x-python' };
  const sharedModel = { getMetadata: () => undefined };
  const panel = { content, context: { path: 'plan.ipynb', model: { sharedModel } } };
  const ghost = new GhostText(settings, () => 'plan.ipynb', { find: () => panel } as never, trans);
  const type = (text: string, after = ''): void => {
    cell.model.sharedModel.source = text + after;
    offset = text.length;
    cell.model.sharedModel.changed.emit({ sourceChange: [] });
  };
  const request = () => ({ text: cell.model.sharedModel.source, offset: offset, mimeType: '' });
  const ask = async (triggerKind = Automatic): Promise<string | undefined> => {
    const list = await ghost.fetch(request(), { widget: panel, triggerKind } as never);
    return list.items[0]?.insertText;
  };
  /** The next request, once it was sent. */
  const sent = async (count: number): Promise<IAsked> => {
    while (asked.length < count) {
      await Promise.resolve();
    }
    return asked[count - 1] as IAsked;
  };
  return { asked, ghost, panel, type, ask, sent, request, move: (to: number) => (offset = to) };
}

let warned: string[] = [];

beforeEach(() => {
  warned = [];
  jest.spyOn(Notification, 'warning').mockImplementation(message => {
    warned.push(message);
    return '';
  });
});

afterEach(() => {
  jest.restoreAllMocks();
  jest.useRealTimers();
});

function failure(code: string, retryable: boolean): object {
  return { error: { code, message: 'It failed.', hint: 'Wait.', retryable } };
}

describe('ghost text', () => {
  it('is what the server finds at the cursor, with the cells above', async () => {
    const { type, ask, sent } = stage('import math', 'x = 2');
    type('math.sq', '\nprint(x)');
    const shown = ask();
    const { body, answer } = await sent(1);
    expect(body).toMatchObject({
      prefix: 'math.sq',
      suffix: '\nprint(x)',
      notebook: 'plan.ipynb',
      language: 'python',
      above: [
        { type: 'code', source: 'import math' },
        { type: 'code', source: 'x = 2' }
      ]
    });
    answer({ text: 'rt(x)' });
    expect(await shown).toBe('rt(x)');
  });

  it('ends with the next key, and so does the request', async () => {
    const { type, ask, sent } = stage();
    type('a');
    const shown = ask();
    const { signal } = await sent(1);
    type('ab');
    expect(signal.aborted).toBe(true);
    expect(await shown).toBeUndefined();
    expect(warned).toEqual([]);
  });

  it('ends with the next request', async () => {
    const { type, ask, sent } = stage();
    type('a');
    const older = ask();
    const { signal } = await sent(1);
    const newer = ask(Invoke);
    const { answer } = await sent(2);
    expect(signal.aborted).toBe(true);
    answer({ text: 'b' });
    expect([await older, await newer]).toEqual([undefined, 'b']);
  });

  it('is not shown once the cursor has moved', async () => {
    const { type, ask, sent, move } = stage();
    type('a = 1');
    const shown = ask();
    const { answer } = await sent(1);
    move(2);
    answer({ text: '0' });
    expect(await shown).toBeUndefined();
  });

  it('remains while the person types it, without a request', async () => {
    const { type, ask, sent, asked } = stage();
    type('total = su');
    const shown = ask();
    (await sent(1)).answer({ text: 'm(prices)' });
    expect(await shown).toBe('m(prices)');
    type('total = sum(');
    expect(await ask()).toBe('prices)');
    expect(asked).toHaveLength(1);
    type('total = sum(x');
    void ask();
    expect((await sent(2)).body.prefix).toBe('total = sum(x');
  });
});

describe('an error of a completion', () => {
  it('is shown once while the person types, and pauses requests', async () => {
    const { type, ask, sent, asked } = stage();
    type('a');
    const first = ask();
    (await sent(1)).answer(failure('model_failed', true), 503);
    await first;
    expect(warned).toEqual(['No completion: It failed. Wait.']);
    expect(await ask()).toBeUndefined();
    expect(asked).toHaveLength(1);
    const now = Date.now();
    jest.spyOn(Date, 'now').mockReturnValue(now + PAUSE + 1);
    const second = ask();
    (await sent(2)).answer(failure('model_failed', true), 503);
    await second;
    expect(warned).toHaveLength(1);
  });

  it('is shown each time that the person asks, and a success ends the pause', async () => {
    const { type, ask, sent, asked } = stage();
    type('a');
    for (const count of [1, 2]) {
      const shown = ask(Invoke);
      (await sent(count)).answer(failure('no_model', false), 409);
      await shown;
    }
    expect(warned).toHaveLength(2);
    await ask();
    expect(asked).toHaveLength(2);
    const shown = ask(Invoke);
    (await sent(3)).answer({ text: 'b' });
    expect(await shown).toBe('b');
    type('c');
    void ask();
    expect((await sent(4)).body.prefix).toBe('c');
  });

  it.each([
    ['a login that has expired', 403, { message: 'Forbidden' }, true],
    ['a proxy', 429, {}, true],
    ['a full disk', 507, failure('disk_full', false), true],
    ['no model for code', 409, failure('no_model', false), false]
  ])('of %s pauses requests for a while if it may pass', async (_, status, body, passes) => {
    const { type, ask, sent, asked } = stage();
    type('a');
    const first = ask();
    (await sent(1)).answer(body, status);
    await first;
    await ask();
    expect(asked).toHaveLength(1);
    jest.spyOn(Date, 'now').mockReturnValue(Date.now() + PAUSE + 1);
    void ask();
    await new Promise(resolve => setTimeout(resolve));
    expect(asked).toHaveLength(passes ? 2 : 1);
  });
});
