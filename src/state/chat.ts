/** What a chat shows: turns, made of what Claude wrote, thought and did. Plain values. */

import type {
  CellChangedEvent,
  ChatChanges,
  End,
  ErrorInfo,
  Json,
  Mode,
  PermissionAskedEvent,
  Picture,
  Proposal,
  SentenceInfo,
  UsedEvent
} from '../api/events';

/**
 * The status of a call: `pending` while it needs an approval, `denied` where a person refused it,
 * `stopped` where its turn was stopped before it ended.
 */
export type CallStatus = 'pending' | 'running' | 'complete' | 'error' | 'denied' | 'stopped';

export interface IText {
  kind: 'text' | 'thinking';
  block: number;
  text: string;
  /** Characters (code points) of it. */
  length: number;
}

/** Something that the server says: in English, and by its code where it has one. */
export interface ISaid {
  text: string;
  sentence: SentenceInfo | null;
}

export interface INotice extends ISaid {
  kind: 'notice';
}

/** A request for a person's approval. */
export interface IQuestion {
  id: string;
  effect: PermissionAskedEvent['effect'];
  notebook: string | null;
  proposal: Proposal;
  answers: PermissionAskedEvent['answers'];
}

export interface IResult {
  ok: boolean;
  text: string;
  structured: Json;
  /** Of each of the answer's notices its code; undefined in what an older version kept. */
  notices: readonly (SentenceInfo | null)[] | undefined;
  images: readonly Picture[];
  seconds: number;
}

/** A call of a tool. */
export interface ICall {
  kind: 'call';
  id: string;
  tool: string;
  arguments: Json;
  status: CallStatus;
  progress: ISaid | null;
  question: IQuestion | null;
  /** Whether a person was asked for an approval. */
  asked: boolean;
  changes: readonly CellChangedEvent[];
  result: IResult | null;
}

export type Item = IText | INotice | ICall;

/** The model is asked again in a while. */
export interface IRetry {
  attempt: number;
  attempts: number;
  seconds: number;
  reason: string;
}

/** A message and all that came of it. */
export interface ITurn {
  id: string;
  /** Seconds since the epoch. */
  time: number;
  text: string;
  notebook: string | null;
  /** The cell that the person was in, where it went with the message. */
  activeCell: string | null;
  mode: Mode;
  model: string;
  attachments: readonly string[];
  /** How many turns of the chat came first when it was sent. */
  ahead: number;
  began: boolean;
  items: readonly Item[];
  retry: IRetry | null;
  usage: UsedEvent | null;
  error: ErrorInfo | null;
  end: End | null;
  /** Whether it made a plan that waits for an answer. */
  plans: boolean;
  /** Whether a later message took its place: Claude does not know of it any more. */
  replaced: boolean;
}

/** Whether a message waits for the one before it. */
export function waits(turn: ITurn): boolean {
  return turn.end === null && !turn.began && turn.ahead > 0;
}

/** Whether a message was taken back before Claude got it. */
export function isUnsent(turn: ITurn): boolean {
  return turn.end === 'stopped' && !turn.began;
}

/** What of a chat's changes stood when the server was asked. */
export interface IJournal extends ChatChanges {
  /** The turns that had ended by then: of others it knows nothing, or not all. */
  ended: ReadonlySet<string>;
}

/** A chat as far as it is known. */
export interface IChatState {
  /** The number of the last event. */
  last: number;
  turns: readonly ITurn[];
}

export const EMPTY: IChatState = { last: 0, turns: [] };

/** Whether a turn goes on or waits. */
export function isBusy(state: Pick<IChatState, 'turns'>): boolean {
  return state.turns.some(turn => turn.end === null);
}

/** The first question that waits for an answer, with its call. */
export function waitingQuestion(state: IChatState): { call: ICall; question: IQuestion } | null {
  for (const turn of state.turns) {
    if (turn.end === null) {
      for (const item of turn.items) {
        if (item.kind === 'call' && item.question !== null) {
          return { call: item, question: item.question };
        }
      }
    }
  }
  return null;
}

/** All changes of a turn, those of one cell together, in the order in which cells were touched. */
export function changesByCell(turn: ITurn): Map<string, CellChangedEvent[]> {
  const found = new Map<string, CellChangedEvent[]>();
  for (const item of turn.items) {
    if (item.kind === 'call') {
      for (const change of item.changes) {
        const key = `${change.notebook}\n${change.cell}`;
        found.set(key, [...(found.get(key) ?? []), change]);
      }
    }
  }
  return found;
}

/** Tokens and dollars of all turns. */
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
      cost = usage.cost_usd === null ? cost : (cost ?? 0) + usage.cost_usd;
    }
  }
  return { tokens, cost };
}
