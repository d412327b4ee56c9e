/* Written by scripts/typescript.py, from the models of the server's routes. */
export type Answer = 'once' | 'chat' | 'notebook' | 'deny';
export type Effect = 'READ' | 'WRITE' | 'EXECUTE';
export type Mode = 'plan' | 'ask' | 'edit' | 'auto';
export type Outcome = 'once' | 'chat' | 'notebook' | 'deny' | 'expired' | 'withdrawn';
export type StepKind =
  | 'insert'
  | 'change'
  | 'delete'
  | 'move'
  | 'outputs'
  | 'run'
  | 'code'
  | 'create'
  | 'undo'
  | 'kernel'
  | 'open'
  | 'arguments';
/** A change or run of a notebook through a tool. */
export interface Activity {
  /**
   * `changed` and `taken_back`: cells were written; `running` and `ran`: a cell's code starts and
   * ends; `missed`: the subscriber was too slow for the activities here.
   */
  kind: 'changed' | 'taken_back' | 'running' | 'ran' | 'missed';
  /** The name that people see; empty for `missed`. */
  author: string;
  /** The keys of the cells. */
  cells: readonly string[];
  /** The chat's turn; None if it belongs to none. */
  turn: string | null;
  /** The number of the journal entry of a change; 0 for none. */
  entry: number;
  /** How a run ended; otherwise empty. */
  status: string;
}
/** The turn's time has come: Claude is asked. */
export interface BeganEvent extends EventHead {
  kind: 'began';
}
/** A call changed a cell. */
export interface CellChangedEvent extends EventHead {
  kind: 'cell_change';
  /** The call. */
  call: string;
  /** The path. */
  notebook: string;
  /** insert, replace, delete, move or outputs. */
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** The cell's key. */
  cell: string;
  /** Its index after the change; before it, where it was deleted. */
  index: number;
  /** code, markdown or raw. */
  cell_type: string;
  /** The lines that went and came, with `-` and `+` before them. */
  diff: string;
  /** The journal's number of the change. */
  entry: number;
}
/** The cell that a step concerns. */
export interface CellReference {
  /** Its key (`model.cells.Cell.key`). */
  id: string;
  /** Its position, from 0. */
  index: number;
  /** code, markdown or raw. */
  type: 'code' | 'markdown' | 'raw';
  /** Its versioned address. */
  address: string;
}
/** The run of one cell, or of scratch code. */
export interface CellRun {
  cell?: string | null;
  index?: number | null;
  status: string;
  execution_count?: number | null;
  duration?: number | null;
  output?: string;
  artifact?: string | null;
  total_lines?: number | null;
  placeholders?: readonly number[];
  error?: string | null;
  message?: string | null;
  data?: readonly unknown[];
  events?: readonly Readonly<Record<string, unknown>>[];
}
/** A change to a notebook. */
export interface ChangeInfo {
  /** The change's number, to undo it by. */
  entry: number;
  time: number;
  author: string;
  tool: string;
  /** Of a chat. */
  turn: string | null;
  /** Whether an agent of yours made it. */
  yours: boolean;
  summary: string;
  cells: readonly ChangedCell[];
}
export interface ChangeList {
  changes: readonly ChangeInfo[];
}
/** A cell of a change. */
export interface ChangedCell {
  cell: string;
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** What its source became, as a unified diff. */
  diff: string;
  truncated: boolean;
}
/** A change of a chat that stands. */
export interface ChatChange {
  /** As the event `cell_change` names it. */
  entry: number;
  turn: string | null;
  /** Its path now. */
  notebook: string;
  time: number;
  /** The cells of which the change stands. */
  cells: readonly string[];
}
/** The changes of a chat that stand. */
export interface ChatChanges {
  changes: readonly ChatChange[];
  /** Earlier changes may stand without being listed. */
  since: number;
}
/** A chat. */
export interface ChatInfo {
  id: string;
  title: string;
  notebook: string | null;
  created: number;
  updated: number;
  /** Whether a turn goes on or waits. */
  busy: boolean;
}
/** The model's stream was cut and begins anew: blocks from this number on are void. */
export interface DiscardedEvent extends EventHead {
  kind: 'discarded';
  block: number;
}
/** The last event of a turn. */
export interface DoneEvent extends EventHead {
  kind: 'done';
  /** How it ended. */
  end: 'done' | 'stopped' | 'failed';
  /** Claude's last words: all text after the last call. */
  text: string;
}
/** What went wrong, and what to do next. */
export interface ErrorInfo {
  /** Stable; names the kind of error. */
  code: string;
  message: string;
  hint: string;
  /** Whether the same request can succeed later. */
  retryable: boolean;
  details?: Readonly<Record<string, unknown>>;
  /** The message by its code; None where it has none. */
  sentence?: SentenceInfo | null;
  /** The hint by its code; None where it has none. */
  hint_sentence?: SentenceInfo | null;
}
/** What each event of a chat has. */
export interface EventHead {
  /** The number; of `permission` and `permission_settled` the request's id. */
  id: number;
  /** Rises within the chat: what Last-Event-ID takes. */
  number: number;
  turn: string;
  time: number;
}
/** The turn cannot go on; `error` is `error_info`. */
export interface FailedEvent extends EventHead {
  kind: 'error';
  error: ErrorInfo;
}
/** The kernel of a call: the id of a running kernel, or the kernelspec of a new one. */
export interface KernelReference {
  id: string | null;
  name: string | null;
}
/** A line of a diff or of code, verbatim. */
export interface Line {
  mark: ' ' | '+' | '-' | '@';
  text: string;
}
/** What answers in chats. */
export interface ModelsInfo {
  provider: string;
  label: string;
  ready: boolean;
  model: string;
  models: readonly string[];
  address: string | null;
  /** Names of the variables that were found. */
  configured: readonly string[];
  /** Names of those that have to be set. */
  missing: readonly string[];
  /** Who gave the credentials: settings, environment, user or project. */
  source: string | null;
  /** A folder whose file of keys is not used before it is trusted. */
  untrusted: string | null;
  ignored: readonly string[];
  hint: string;
  /** The hint by its code; None where it has none. */
  hint_sentence?: SentenceInfo | null;
}
/** Something that the person has to know besides; by its code in `sentence`, where it has one. */
export interface NoticedEvent extends EventHead {
  kind: 'notice';
  text: string;
  sentence: SentenceInfo | null;
}
/** A call needs the person's approval; `POST /api/tk-ai/permissions/{id}` answers. */
export interface PermissionAskedEvent extends Omit<EventHead, 'id'> {
  /** The request's. */
  id: string;
  kind: 'permission';
  /** The call that waits. */
  call: string;
  /** The tool's name. */
  tool: string;
  /** What it does: WRITE or EXECUTE. */
  effect: Effect;
  /** The path it concerns, or None. */
  notebook: string | null;
  /** The proposal as plain text. */
  preview: string;
  /** What will happen: the diff or the code (`model.proposals.Proposal.as_dict`). */
  proposal: Proposal;
  /** The answers that mean something here. */
  answers: readonly Answer[];
}
/** A request for permission. */
export interface PermissionInfo {
  id: string;
  /** Who wants to act. */
  author: string;
  /** The key of a caller that gives no name of its own. */
  caller: string | null;
  /** The interface by which the call came. */
  face: string;
  tool: string;
  effect: Effect;
  notebook: string | null;
  /** What will happen: the diff or the code. */
  proposal: Proposal;
  /** The proposal as plain text. */
  preview: string;
  answers: readonly Answer[];
  /** Seconds since the epoch. */
  created: number;
  /** Whether somebody is asked within the call: in its chat, or by its client. */
  within_call: boolean;
}
/** A request waits from now on. */
export interface PermissionRequested {
  kind: 'asked';
  permission: PermissionInfo;
}
/** A request waits no more. */
export interface PermissionSettled {
  kind: 'settled';
  id: string;
  /** Its user's answer, through whichever interface; or it expired; or its caller is gone. */
  outcome: Outcome;
}
/** A request for permission waits no more: it was answered, or its call was stopped. */
export interface PermissionSettledEvent extends Omit<EventHead, 'id'> {
  /** The request's. */
  id: string;
  kind: 'permission_settled';
  /** The call that waited; its result says what came of it. */
  call: string;
}
/** The requests that wait: what a stream begins with. */
export interface PermissionsWaiting {
  kind: 'waiting';
  permissions: readonly PermissionInfo[];
}
/** A picture, for a person to see. */
export interface Picture {
  /** Base64. */
  data: string;
  mime: string;
}
/** A plan waits no more; the message of this turn says what comes of it. */
export interface PlanSettledEvent extends EventHead {
  kind: 'plan_settled';
  /** The turn that made the plan. */
  plan: string;
  /** `approved`, `rejected`, or `passed` where another message was sent instead. */
  answer: 'approved' | 'rejected' | 'passed';
}
/** A turn in the mode `plan` has made a plan; `POST /api/tk-ai/chats/{id}/plan` answers it. */
export interface PlannedEvent extends EventHead {
  kind: 'plan';
  /** The plan. */
  text: string;
  /** The notebook that it is about: the turn that carries it out is bound to it. */
  notebook: string | null;
  /** The model that made it. */
  model: string;
}
/** Everything that a call will do. */
export interface Proposal {
  /** One sentence for a person. */
  title: string;
  /** The steps, in order. */
  steps: readonly ProposalStep[];
  /** The path of the notebook that the call concerns; None for none or several. */
  notebook: string | null;
  /** The kernel that runs the code; None if nothing runs. */
  kernel: KernelReference | null;
  /** The number of characters that were left out to shorten the steps. */
  omitted: number;
  /** The title by its code; None where it has none. */
  sentence: SentenceInfo | null;
}
/** One step of a proposal. */
export interface ProposalStep {
  /** The effect. */
  kind: StepKind;
  /** One sentence for a person, who counts cells from 1. */
  title: string;
  /** The cell; None for a new one. */
  cell: CellReference | null;
  /** The index that a cell is inserted at or moved to, from 0. */
  to: number | null;
  /** Whether the lines marked with a space or `+` are run. */
  runs: boolean;
  /** The diff or the code. If the step runs code, all of the code. */
  lines: readonly Line[];
  /** The title by its code; None where it has none. */
  sentence: SentenceInfo | null;
}
/** The model could not be asked and is asked again. */
export interface RetriedEvent extends EventHead {
  kind: 'retry';
  /** The number of this attempt, from 1. */
  attempt: number;
  /** How many there will be at most. */
  attempts: number;
  /** Until the next one. */
  seconds: number;
  /** The HTTP status that the model's server answered with, where it answered. */
  status: number | null;
  /** What it said, in a word. */
  reason: string;
}
/** A person's message: the beginning of a turn. */
export interface SentEvent extends EventHead {
  kind: 'message';
  /** The chat's id. */
  chat: string;
  /** As the person wrote it. */
  text: string;
  /** The path of the notebook that the turn is bound to, or None. */
  notebook: string | null;
  /** The permission mode that holds in it. */
  mode: Mode;
  /** The model that answers. */
  model: string;
  /** What went with it, a line each. */
  attachments: readonly string[];
  /** How many turns of this chat come first. */
  waits: number;
  /** The cell that the person was in, as it was sent. */
  active_cell: string | null;
  /** The turn whose place it takes, with all that came after that turn; None for none. */
  replaces: string | null;
}
/** A sentence for an interface that translates it. */
export interface SentenceInfo {
  /** Stable; names the sentence. */
  code: string;
  /** What stands in it: texts, numbers, or a sentence within it. */
  parameters: Readonly<Record<string, unknown>>;
}
/** The result of an undo in one notebook. */
export interface TakenBack {
  /** The path. */
  notebook: string;
  /** The keys of the restored cells. */
  cells: readonly string[];
  /** Sentences that say which changes stay, and why. */
  left: readonly string[];
}
/** A piece of what Claude writes. */
export interface TextDeltaEvent extends EventHead {
  kind: 'text';
  /** The block's number in this turn, from 0; thinking counts, too. */
  block: number;
  /** Characters of the block before this piece. */
  start: number;
  /** The piece. */
  text: string;
}
/** A piece of what Claude thinks; as `TextDelta`. */
export interface ThinkingDeltaEvent extends EventHead {
  kind: 'thinking';
  block: number;
  start: number;
  text: string;
}
/** A call has ended. */
export interface ToolAnsweredEvent extends EventHead {
  kind: 'tool_result';
  /** The call. */
  call: string;
  /** The tool's name. */
  tool: string;
  /** Whether it did what was asked. */
  ok: boolean;
  /** What Claude reads. */
  text: string;
  /** The structured answer, or `{"error": …}`. */
  structured: Readonly<Record<string, unknown>>;
  /** Pictures: `{"data": base64, "mime": …}`. */
  images: readonly Picture[];
  /** How long it took; a person's thinking about a permission counts. */
  seconds: number;
  /** Of each of the answer's notices its code, where it has one. */
  notices: readonly (SentenceInfo | null)[];
}
/** Claude calls a tool. */
export interface ToolCalledEvent extends EventHead {
  kind: 'tool_call';
  /** The call's id; progress, permission, changes and the result name it. */
  call: string;
  /** The tool's name in the registry. */
  tool: string;
  /** Exactly what it was given. */
  arguments: Readonly<Record<string, unknown>>;
}
/** A line that says what a running call is doing; by its code in `sentence`, where it has one. */
export interface ToolProgressedEvent extends EventHead {
  kind: 'tool_progress';
  call: string;
  message: string;
  sentence: SentenceInfo | null;
}
export interface UndoneChanges {
  undone: readonly TakenBack[];
}
/** What the turn took. */
export interface UsedEvent extends EventHead {
  kind: 'usage';
  /** Of the turn. */
  input_tokens: number;
  /** Of the turn. */
  output_tokens: number;
  /** Of the turn. */
  cache_read_tokens: number;
  /** Of the turn. */
  cache_write_tokens: number;
  /** Of the turn, as the model's prices say; None where they are not known. */
  cost_usd: number | null;
  /** Of Claude's session up to the end of the turn, as its process reports it. */
  session_cost_usd: number | null;
  /** From the question to the end. */
  seconds: number;
  /** How often the model was asked. */
  requests: number;
}
export type ChatEvent =
  | SentEvent
  | BeganEvent
  | TextDeltaEvent
  | ThinkingDeltaEvent
  | DiscardedEvent
  | ToolCalledEvent
  | ToolProgressedEvent
  | ToolAnsweredEvent
  | PermissionAskedEvent
  | PermissionSettledEvent
  | PlannedEvent
  | PlanSettledEvent
  | CellChangedEvent
  | UsedEvent
  | RetriedEvent
  | NoticedEvent
  | FailedEvent
  | DoneEvent;
export type PermissionEvent = PermissionsWaiting | PermissionRequested | PermissionSettled;
