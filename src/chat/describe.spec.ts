import type { TranslationBundle } from '@jupyterlab/translation';

import type { ChatEvent, End, ToolAnsweredEvent } from '../api/events';
import { describe as describeCall } from './describe';
import { reduce } from '../state/reduce';
import { EMPTY, type ICall } from '../state/chat';
import { ENDED_CALL, numbered, PROPOSAL, RESULT } from '../testing/events';

const trans = {
  __: (text: string, ...values: unknown[]) =>
    values.reduce<string>(
      (found, value, place) => found.replace(`%${place + 1}`, String(value)),
      text
    )
} as unknown as TranslationBundle;

describe('the cell of a call', () => {
  const ANSWERED = numbered(RESULT, 1) as ToolAnsweredEvent;

  it.each<[string, Partial<ICall>]>([
    ['Ran cell 1', { arguments: { index: 0 } }],
    ['Ran cell 3', { result: { ...ANSWERED, structured: { runs: [{ index: 2 }] } } }],
    ['Ran a cell', { arguments: { cell: '@318a.9f2c41d0' } }]
  ])('is named as a person finds it: %s', (phrase, some) => {
    expect(describeCall({ ...ENDED_CALL, arguments: {}, ...some }, trans)).toBe(phrase);
  });
});

describe('a call in words', () => {
  const call = { kind: 'tool_call', call: 'k', tool: 'insert_and_execute_cell', arguments: {} };
  const question = { kind: 'permission', call: 'k', id: 'p', proposal: PROPOSAL };
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
