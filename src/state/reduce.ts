/** Reducer of chat events. Unchanged parts of the state stay the same objects. */

import type { ChatEvent, End, Json } from '../api/events';
import type { CallStatus, ICall, IChatState, IText, Item, ITurn } from './chat';

/**
 * Return the state after some events.
 *
 * Known events are ignored, so that a subscription may replay them.
 */
export function reduce(state: IChatState, events: readonly ChatEvent[]): IChatState {
  let { last, offer } = state;
  const turns = [...state.turns];
  const places = new Map(turns.map((turn, place) => [turn.id, place]));
  for (const event of events) {
    if (event.number <= last) {
      continue;
    }
    last = Math.max(last, event.number);
    if (event.kind === 'message') {
      if (!places.has(event.turn)) {
        const from = event.replaces == null ? undefined : places.get(event.replaces);
        for (let place = from ?? turns.length; place < turns.length; place++) {
          turns[place] = { ...(turns[place] as ITurn), replaced: true };
        }
        // Any message settles a plan.
        const planned = turns.findLastIndex(turn => turn.plans);
        if (planned >= 0) {
          turns[planned] = { ...(turns[planned] as ITurn), plans: false };
        }
        places.set(event.turn, turns.push(begun(event)) - 1);
      }
      continue;
    }
    const place = places.get(event.turn);
    const turn = place === undefined ? undefined : turns[place];
    if (place === undefined || turn === undefined) {
      continue;
    }
    if (event.kind === 'offer') {
      const { settings, commands } = event;
      offer = { settings, commands, agent: agentOf(turn.model) };
      continue;
    }
    turns[place] = turnAfter(turn, event);
    for (let later = place; event.kind === 'restored' && later < turns.length; later++) {
      turns[later] = { ...(turns[later] as ITurn), replaced: true };
    }
  }
  return { last, turns, offer };
}

/** Return the agent of a model, which may name an agent and its model: `agent:model`. */
export function agentOf(model: string): string {
  return model.split(':')[0] ?? '';
}

function begun(event: Extract<ChatEvent, { kind: 'message' }>): ITurn {
  return {
    id: event.turn,
    time: event.time,
    text: event.text,
    message: event.message,
    notebook: event.notebook,
    activeCell: event.active_cell,
    mode: event.mode,
    model: event.model,
    attachments: event.attachments,
    ahead: event.waits,
    began: false,
    items: [],
    retry: null,
    usage: null,
    error: null,
    end: null,
    plans: false,
    replaced: false,
    restored: null,
    todo: []
  };
}

function turnAfter(turn: ITurn, event: Exclude<ChatEvent, { kind: 'message' }>): ITurn {
  switch (event.kind) {
    case 'began':
      return { ...turn, began: true };
    case 'text':
    case 'thinking':
      return { ...turn, retry: null, items: written(turn.items, event.kind, event) };
    case 'discarded':
      return {
        ...turn,
        items: turn.items.filter(item => !isWritten(item) || item.block < event.block)
      };
    case 'tool_call': {
      const call: ICall = {
        kind: 'call',
        id: event.call,
        tool: event.tool,
        arguments: event.arguments,
        status: 'running',
        progress: '',
        question: null,
        questions: [],
        answers: null,
        changes: [],
        result: null
      };
      return { ...turn, retry: null, items: [...turn.items, call] };
    }
    case 'tool_progress':
      return withCall(turn, event.call, call => ({ ...call, progress: event.message }));
    case 'permission':
      return withCall(turn, event.call, call => ({
        ...call,
        status: 'pending',
        question: event
      }));
    case 'permission_settled':
      return withCall(turn, event.call, call => ({ ...call, status: 'running' }));
    case 'question': {
      const { questions } = event;
      return withCall(turn, event.call, call => ({ ...call, status: 'pending', questions }));
    }
    case 'question_settled': {
      const { given } = event;
      return withCall(turn, event.call, call => ({ ...call, status: 'running', answers: given }));
    }
    case 'cell_change':
      return withCall(turn, event.call, call => ({
        ...call,
        changes: call.changes.some(change => change.entry === event.entry)
          ? call.changes
          : [...call.changes, event]
      }));
    case 'tool_result':
      return withCall(turn, event.call, call => ({
        ...call,
        status: statusOf(call, event),
        result: event
      }));
    case 'retry':
      return { ...turn, retry: event };
    case 'notice':
      return { ...turn, items: [...turn.items, { kind: 'notice', text: event.text }] };
    case 'usage':
      return { ...turn, usage: event };
    case 'error':
      return { ...turn, error: event.error };
    case 'restored':
      return { ...turn, restored: event.notebooks };
    case 'todo_list':
      return { ...turn, todo: event.items };
    case 'done': {
      const end = event.end === 'planned' ? 'done' : event.end;
      const items = turn.items.map(item => ended(item, end));
      return { ...turn, retry: null, end, plans: event.end === 'planned', items };
    }
    default:
      // A newer server may send other events.
      return turn;
  }
}

function isWritten(item: Item): item is IText {
  return item.kind === 'text' || item.kind === 'thinking';
}

/** Append a piece of text to its block. */
function written(
  items: readonly Item[],
  kind: IText['kind'],
  piece: { block: number; text: string }
): readonly Item[] {
  const place = items.findLastIndex(item => isWritten(item) && item.block === piece.block);
  const block = items[place];
  if (block === undefined || !isWritten(block)) {
    return [...items, { kind, block: piece.block, text: piece.text }];
  }
  return items.with(place, { ...block, text: block.text + piece.text });
}

function withCall(turn: ITurn, id: string, change: (call: ICall) => ICall): ITurn {
  const place = turn.items.findLastIndex(item => item.kind === 'call' && item.id === id);
  const call = turn.items[place];
  if (call?.kind !== 'call') {
    return turn;
  }
  return { ...turn, items: turn.items.with(place, change(call)) };
}

/** Return the status of a call with a result. */
function statusOf(call: ICall, { ok, structured }: { ok: boolean; structured: Json }): CallStatus {
  if (ok) {
    return 'complete';
  }
  switch (errorCode(structured)) {
    case 'stopped':
      return 'stopped';
    case 'permission_denied':
      // Without an approval request, a rule of the server denied it.
      return call.question === null ? 'error' : 'denied';
    default:
      return 'error';
  }
}

/** Return the error code in the result of a tool; null for none. */
export function errorCode({ error }: Json): string | null {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : null;
}

/** End a call without a result, since its turn has ended. */
function ended(item: Item, end: End): Item {
  if (item.kind !== 'call' || item.result !== null) {
    return item;
  }
  return { ...item, status: end === 'stopped' ? 'stopped' : 'error' };
}
