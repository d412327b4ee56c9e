import type { TranslationBundle } from '@jupyterlab/translation';

import type { ChatEvent, End } from '../api/events';
import { describe as describeCall, touchedCell } from './describe';
import { reduce } from '../state/reduce';
import { EMPTY, type ICall } from '../state/chat';

const CALL: ICall = {
  kind: 'call',
  id: '1',
  tool: 'execute_cell',
  arguments: { cell: 0 },
  status: 'complete',
  progress: '',
  question: null,
  asked: false,
  changes: [],
  result: null
};

it('knows which cell a call ran, also where it changed none', () => {
  const answered = (structured: Record<string, unknown>): ICall => ({
    ...CALL,
    result: { ok: true, text: '', structured, images: [], seconds: 0 }
  });
  expect(touchedCell(CALL)).toBeNull();
  const runs = [{ cell: 'x' }, { cell: 'y' }];
  expect(touchedCell(answered({ notebook: 'a.ipynb', runs }))).toEqual({
    notebook: 'a.ipynb',
    cell: 'y'
  });
  expect(touchedCell(answered({ runs: [{ status: 'ok' }] }))).toBeNull();
});

describe('a call in words', () => {
  const trans = {
    __: (text: string, ...values: string[]) =>
      values.reduce((found, value, place) => found.replace(`%${place + 1}`, value), text)
  } as unknown as TranslationBundle;
  const call = { kind: 'tool_call', call: 'k', tool: 'insert_and_execute_cell', arguments: {} };
  const question = { kind: 'permission', call: 'k', permission: 'p', effect: 'EXECUTE' };
  const settled = { kind: 'permission_settled', call: 'k' };
  const answered = (code: string | null): object => ({
    ...{ kind: 'tool_result', call: 'k', ok: false, text: '', images: [], seconds: 0 },
    structured: code === null ? {} : { error: { code } }
  });
  const done = (end: End): object => ({ kind: 'done', end, text: '' });

  it.each([
    ['a person denied it', [question, settled, answered('permission_denied'), done('done')]],
    ['the turn was stopped while it ran', [answered('stopped'), done('stopped')]],
    ['its question was withdrawn', [question, settled, answered('stopped'), done('stopped')]],
    ['it was cut without an answer', [done('stopped')]],
    ['the server does not allow it', [answered('permission_denied'), done('done')]],
    ['its cell raised', [answered(null), done('done')]]
  ])('says what became of it: %s', (what, events) => {
    const message = { kind: 'message', text: '', attachments: [], waits: 0 };
    const all = [message, call, ...events].map((event, place) => ({
      ...{ number: place + 1, turn: 't', time: 0 },
      ...event
    }));
    const item = reduce(EMPTY, all as unknown as ChatEvent[]).turns[0]?.items[0] as ICall;
    const words: Record<string, string> = {
      'a person denied it': 'Denied: add and run a cell',
      'the server does not allow it': 'Failed: add and run a cell',
      'its cell raised': 'Added and ran a cell'
    };
    expect(describeCall(item, trans)).toBe(words[what] ?? 'Stopped: add and run a cell');
  });
});
