/** The state of a chat: its turns with texts, thoughts and calls. */

import type {
  CellChangedEvent,
  End,
  ErrorInfo,
  Json,
  Mode,
  OptionsOfferedEvent,
  PermissionAskedEvent,
  Question,
  RequestRetriedEvent,
  UndoResult,
  TodoItem,
  ToolAnsweredEvent,
  UsageReportedEvent
} from '../api/events';

/**
 * The status of a call: `pending` while it needs an approval, `denied` if a person denied it, `stopped`
 * if its turn was stopped before it ended.
 */
export type CallStatus = 'pending' | 'running' | 'complete' | 'error' | 'denied' | 'stopped';

export interface IText {
  kind: 'text' | 'thinking';
  block: number;
  text: string;
}

export interface INotice {
  kind: 'notice';
  text: string;
}

/** A tool call. */
export interface ICall {
  kind: 'call';
  id: string;
  tool: string;
  arguments: Json;
  status: CallStatus;
  /** What it says of its progress; empty for nothing. */
  progress: string;
  /** Its last approval request, which may be settled. */
  question: PermissionAskedEvent | null;
  /** What it asks the person. */
  questions: readonly Question[];
  /** The person's answers to each question; none if they gave none, null before they are settled. */
  answers: readonly (readonly string[])[] | null;
  changes: readonly CellChangedEvent[];
  result: ToolAnsweredEvent | null;
}

export type Item = IText | INotice | ICall;

/** A message and its answer. */
export interface ITurn {
  id: string;
  /** Seconds since the epoch. */
  time: number;
  text: string;
  /** The id of its message; null or undefined if its sender chose none. */
  message: string | null | undefined;
  notebook: string | null;
  /** The active cell, if it was included in the message. */
  activeCell: string | null;
  mode: Mode;
  model: string;
  attachments: readonly string[];
  /** The number of turns before it in the queue when it was sent. */
  ahead: number;
  began: boolean;
  items: readonly Item[];
  /** A pending retry of a request to the model. */
  retry: RequestRetriedEvent | null;
  usage: UsageReportedEvent | null;
  error: ErrorInfo | null;
  end: End | null;
  /** Whether it has a plan that needs an answer. */
  plans: boolean;
  /** Whether it was replaced or restored, and is not in Claude's context any more. */
  replaced: boolean;
  /** What was undone when the chat was restored to before it; null if it was not. */
  restored: readonly UndoResult[] | null;
  /** The agent's to-do list. */
  todo: readonly TodoItem[];
}

/** Return the calls of a turn that wait for the person's answers. */
export function pendingQuestions({ items }: ITurn): ICall[] {
  return items.filter(
    (item): item is ICall =>
      item.kind === 'call' && item.status === 'pending' && item.questions.length > 0
  );
}

/** Return whether a message is queued. */
export function waits(turn: ITurn): boolean {
  return turn.end === null && !turn.began && turn.ahead > 0;
}

/** Return whether a message was withdrawn from the queue. */
export function isUnsent(turn: ITurn): boolean {
  return turn.end === 'stopped' && !turn.began;
}

/** The events of a chat, reduced. */
export interface IChatState {
  /** The number of the last event. */
  last: number;
  turns: readonly ITurn[];
  /** What the agent offers, and the agent; null if it offers nothing. */
  offer: (Pick<OptionsOfferedEvent, 'settings' | 'commands'> & { agent: string }) | null;
}

export const EMPTY: IChatState = { last: 0, turns: [], offer: null };

/** Return whether a turn runs or is queued. */
export function isBusy(state: Pick<IChatState, 'turns'>): boolean {
  return state.turns.some(turn => turn.end === null);
}

/** Return whether a turn changed cells, even if that was undone since. */
export function hasChanges(turn: ITurn): boolean {
  return turn.items.some(item => item.kind === 'call' && item.changes.length > 0);
}

/** Return the tokens of all turns, and the cost of the agent's session in dollars. */
export function total(state: Pick<IChatState, 'turns'>): { tokens: number; cost: number | null } {
  let tokens = 0;
  let cost: number | null = null;
  for (const { usage } of state.turns) {
    if (usage !== null) {
      tokens +=
        usage.input_tokens +
        usage.output_tokens +
        usage.cache_read_tokens +
        usage.cache_write_tokens;
      cost = usage.session_cost_usd ?? cost;
    }
  }
  return { tokens, cost };
}
