/** Events and requests as the server sends them, for tests. */

import type {
  ChatEvent,
  CombinedChange,
  PermissionInfo,
  Proposal,
  MessageSentEvent
} from '../api/events';
import type { ICall } from '../state/chat';

type Head = 'number' | 'turn' | 'time';
/** An event without its numbers. `id` is that of a request. */
export type Payload<T = ChatEvent> = T extends { id: string }
  ? Omit<T, Head>
  : T extends unknown
    ? Omit<T, Head | 'id'>
    : never;

/** Events of one turn, numbered from 1. */
export function story(...payloads: Payload[]): ChatEvent[] {
  return payloads.map((payload, place) => numbered(payload, place + 1));
}

/** Return an event with a number. */
export function numbered(payload: Payload, number: number, turn = 't'): ChatEvent {
  return { id: number, ...payload, number, turn, time: 0 };
}

/** A call that has ended, as a turn has it. */
export const ENDED_CALL: ICall = {
  kind: 'call',
  id: '1',
  tool: 'execute_cell',
  arguments: { cell: 0 },
  status: 'complete',
  progress: '',
  question: null,
  questions: [],
  answers: null,
  changes: [],
  result: null
};

/** A message. */
export const MESSAGE: Payload<MessageSentEvent> = {
  kind: 'message',
  chat: 'c',
  text: 'Plot it.',
  notebook: 'a.ipynb',
  mode: 'ask',
  model: 'm',
  attachments: [],
  waits: 0,
  active_cell: null,
  replaces: null,
  message: null
};

/** A cell that a call inserted. */
export const CHANGE = {
  kind: 'cell_change',
  call: 'k',
  notebook: 'a.ipynb',
  action: 'insert',
  cell: 'z',
  index: 2,
  cell_type: 'code',
  diff: '+x = 1',
  entry: 7
} as const;

/** The same, as the server compares the notebook before and after the turn. */
export const NET: CombinedChange = {
  notebook: 'a.ipynb',
  action: 'insert',
  cell: 'z',
  index: 2,
  cell_type: 'code',
  before: null,
  diff: '+x = 1',
  truncated: false,
  entries: [7],
  author: 'Claude',
  time: 1,
  yours: true
};

/** A call that inserts a cell, and its result. */
export const CALL = { kind: 'tool_call', call: 'k', tool: 'insert_cell', arguments: {} } as const;
export const RESULT = {
  kind: 'tool_result',
  call: 'k',
  tool: 'insert_cell',
  ok: true,
  text: 'Done.',
  structured: {},
  images: [],
  seconds: 0,
  notices: []
} as const;

/** The usage of a turn, of a model of which nothing is known. */
export const USAGE = {
  kind: 'usage',
  input_tokens: 1,
  output_tokens: 1,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  session_cost_usd: null,
  seconds: 1
} as const;

/** The end of a turn with a plan. */
export const PLANNED = { kind: 'done', end: 'planned', text: 'I would…' } as const;

/** The end of a turn. */
export const DONE = { kind: 'done', end: 'done', text: '' } as const;

/** A proposal to insert a cell and to run it. */
export const PROPOSAL: Proposal = {
  title: 'Insert a code cell',
  steps: [
    {
      kind: 'insert',
      title: 'Insert and run a code cell at the end',
      cell: null,
      cell_type: 'code',
      to: 1,
      runs: true,
      lines: [{ mark: '+', text: 'x = 1' }]
    }
  ],
  notebook: 'a.ipynb',
  kernel: null
};

/** A request for permission by an agent. */
export function request(id: string, some: Partial<PermissionInfo> = {}): PermissionInfo {
  return {
    id,
    author: 'claude-code 2.1',
    caller: null,
    chat: null,
    interface: 'mcp',
    tool: 'insert_cell',
    effect: 'WRITE',
    notebook: 'plan.ipynb',
    proposal: PROPOSAL,
    preview: '+x = 1',
    answers: ['once', 'deny'],
    created: 0,
    within_call: false,
    ...some
  };
}
