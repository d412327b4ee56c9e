/** What happens in a chat, as the server sends it: each event is numbered within its chat. */

export type Mode = 'plan' | 'ask' | 'edit' | 'auto';

/** The permission modes, the strictest first. */
export const MODES: readonly Mode[] = ['plan', 'ask', 'edit', 'auto'];

/** An answer to a request for permission. */
export type Leave = 'once' | 'chat' | 'notebook' | 'deny';

/** How a turn ended. */
export type End = 'done' | 'stopped' | 'failed';

export type Json = Record<string, unknown>;

/** An error as every face of the server shows it. */
export interface IProblem {
  code: string;
  message: string;
  hint: string;
  retryable: boolean;
}

export interface IPicture {
  /** Base64. */
  data: string;
  mime: string;
}

/** A changed cell. */
export interface IChange {
  call: string;
  notebook: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  cell: string;
  index: number;
  cell_type: string;
  /** Lines with `-` and `+` before them. */
  diff: string;
  entry: number;
}

export interface IUsage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  /** Dollars; null where the prices are not known. */
  cost_usd: number | null;
  seconds: number;
  requests: number;
}

/** A line of a proposal: it stays, is added or removed; `@` stands between two parts of a diff. */
export interface IProposalLine {
  mark: ' ' | '+' | '-' | '@';
  text: string;
}

/** One thing that a call would do. */
export interface IProposalStep {
  kind: string;
  title: string;
  cell: { id: string; index: number; type: string; address: string } | null;
  /** From 0: where a cell is inserted or moved to. */
  to: number | null;
  /** Whether the lines that stay or are added are run. */
  runs: boolean;
  lines: readonly IProposalLine[];
}

/** All that a call would do, as a person is shown it. */
export interface IProposal {
  notebook: string | null;
  kernel: { id: string | null; name: string | null } | null;
  title: string;
  steps: readonly IProposalStep[];
  /** Characters left out at the end. */
  omitted: number;
}

interface IBase<Kind extends string> {
  id: number;
  turn: string;
  /** Seconds since the epoch. */
  time: number;
  kind: Kind;
}

interface IPiece {
  /** The block's number in its turn. */
  block: number;
  /** Characters of the block before this piece. */
  start: number;
  text: string;
}

export interface IMessageEvent extends IBase<'message'> {
  chat: string;
  text: string;
  notebook: string | null;
  mode: Mode;
  model: string;
  attachments: readonly string[];
  waits: number;
  /** The cell that the person was in. */
  active_cell?: string | null;
  /** The turn whose place it takes, with all that came after that turn. */
  replaces?: string | null;
}

export interface IPermissionEvent extends IBase<'permission'> {
  call: string;
  tool: string;
  /** Names the request when it is answered. */
  permission: string;
  effect: 'READ' | 'WRITE' | 'EXECUTE';
  notebook: string | null;
  /** As plain text. */
  preview: string;
  /** Not there in chats that were recorded before there were proposals. */
  proposal?: IProposal | null;
  answers: Leave[];
}

export type ChatEvent =
  | IMessageEvent
  | IBase<'began'>
  | (IBase<'text'> & IPiece)
  | (IBase<'thinking'> & IPiece)
  | (IBase<'discarded'> & { block: number })
  | (IBase<'tool_call'> & { call: string; tool: string; arguments: Json })
  | (IBase<'tool_progress'> & { call: string; message: string })
  | (IBase<'tool_result'> & {
      call: string;
      tool: string;
      ok: boolean;
      text: string;
      structured: Json;
      images: IPicture[];
      seconds: number;
    })
  | IPermissionEvent
  | (IBase<'permission_settled'> & { call: string })
  | (IBase<'cell_change'> & IChange)
  | (IBase<'plan'> & { text: string; notebook: string | null; model: string })
  | (IBase<'plan_settled'> & { plan: string; answer: 'approved' | 'rejected' | 'passed' })
  | (IBase<'retry'> & {
      attempt: number;
      attempts: number;
      seconds: number;
      status: number | null;
      reason: string;
    })
  | (IBase<'notice'> & { text: string })
  | (IBase<'usage'> & IUsage)
  | (IBase<'error'> & { error: IProblem })
  | (IBase<'done'> & { end: End; text: string });
