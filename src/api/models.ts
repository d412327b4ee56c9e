/* Written by scripts/typescript.py, from the models of the server's routes. */
export type Answer = 'once' | 'chat' | 'chat_tool' | 'notebook' | 'notebook_tool' | 'deny';
export type Effect = 'READ' | 'WRITE' | 'EXECUTE';
export type Mode = 'plan' | 'ask' | 'edit' | 'auto';
export type Outcome = Answer | 'expired' | 'withdrawn';
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
export interface ActivityEvent {
  /**
   * `changed` and `taken_back`: cells were written; `kept`: a person keeps changes; `running` and
   * `ran`: a cell's code starts and ends; `shown`: an agent points its user to a cell; `missed`:
   * the subscriber was too slow for the activities here.
   */
  kind: 'changed' | 'kept' | 'taken_back' | 'running' | 'ran' | 'shown' | 'missed';
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
/** A value of a setting, with its name for people. */
export interface AgentChoice {
  value: string;
  name: string;
}
/** A setting of the agent, such as its effort; a message chooses another value by its `options`. */
export interface AgentSetting {
  id: string;
  name: string;
  value: string;
  choices: readonly AgentChoice[];
}
/** A command of the agent; a person sends `/name` to run it. */
export interface AgentSlashCommand {
  name: string;
  description: string;
}
/** The model's stream was interrupted and restarts: discard the blocks from this number on. */
export interface BlocksDiscardedEvent extends EventHead {
  kind: 'discarded';
  block: number;
}
/** A cell of the notebook, with its outputs and their pictures. */
export interface CellAttachment {
  title?: string | null;
  kind: 'cell';
  cell: string;
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
  /** Its index after the change; before it, if it was deleted. */
  index: number;
  /** code, markdown or raw. */
  cell_type: string;
  /** The removed and added lines, with `-` and `+` before them. */
  diff: string;
  /** Number of the change in the journal. */
  entry: number;
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
  left_out?: number;
}
/** A chat. */
export interface ChatInfo {
  id: string;
  title: string;
  notebook: string | null;
  created: number;
  updated: number;
  /** Whether a turn is running or queued. */
  busy: boolean;
}
/** The chat was restored to before this turn: this turn and all later ones are replaced. */
export interface ChatRestoredEvent extends EventHead {
  kind: 'restored';
  /** The changes that were undone in each notebook, and those that stay. */
  notebooks: readonly UndoResult[];
}
/** Setup of a user's chats. */
export interface ChatSetupInfo {
  /** The file of instructions below the root; None if there is none. */
  instructions: string | null;
  prompts: readonly PromptInfo[];
  servers: McpServerList;
}
/** The combined effect of several changes on one cell. */
export interface CombinedChange {
  /** The path. */
  notebook: string;
  /** The cell's key. */
  cell: string;
  /** insert, replace, delete, move or outputs. */
  action: 'insert' | 'replace' | 'delete' | 'move' | 'outputs';
  /** Its index after the last change; before it, if it was deleted. */
  index: number;
  /** code, markdown or raw. */
  cell_type: string;
  /** The source before; None if there was no cell, or the source is too long. */
  before: string | null;
  /** The removed and added lines, as the event `cell_change` has them. */
  diff: string;
  /** Whether a source is too long: then the diff is empty. */
  truncated: boolean;
  /** The journal entries of the changes; empty if a person keeps all of them. */
  entries: readonly number[];
  /** The displayed name of the author of the last change. */
  author: string;
  /** The time of the last change, in seconds since the epoch. */
  time: number;
  /** Whether your agents made all changes. */
  yours: boolean;
}
/** The combined effect of changes, by cell. */
export interface CombinedChanges {
  changes: readonly CombinedChange[];
}
/** A completion. */
export interface CompletedCode {
  /** To insert at the cursor; empty if there is nothing useful. */
  text: string;
}
/** State of the connection to a model. */
export interface ConnectionInfo {
  /** Whether this user may connect a model here. */
  allowed: boolean;
  /** The connection that was entered in the panel, if any. */
  stored: StoredConnectionInfo | null;
  /** What chats use now. */
  models: ModelsInfo;
}
/** A proposal for a cell. Nothing was written. */
export interface EditedCell {
  /** The whole new source. */
  source: string;
}
/** The error of a cell, with its traceback. */
export interface ErrorAttachment {
  title?: string | null;
  kind: 'error';
  cell: string;
}
/** An error: its cause and what to do. */
export interface ErrorInfo {
  /** Stable code of the kind of error. */
  code: string;
  message: string;
  hint: string;
  /** Whether the same request can succeed later. */
  retryable: boolean;
  details?: Readonly<Record<string, unknown>>;
}
/** Fields of every event of a chat. */
export interface EventHead {
  /** The event's number; for `permission` and `permission_settled` the request's id. */
  id: number;
  /** Increasing number within the chat, for Last-Event-ID. */
  number: number;
  turn: string;
  time: number;
}
/** A text file below the root. */
export interface FileAttachment {
  title?: string | null;
  kind: 'file';
  path: string;
}
/** The list of a folder's files, without its subfolders' files. */
export interface FolderAttachment {
  title?: string | null;
  kind: 'folder';
  path: string;
}
/** An image. */
export interface ImageAttachment {
  title?: string | null;
  kind: 'image';
  mime: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  data: string;
}
/** A user's server, without its arguments, variables and headers. */
export interface McpServerInfo {
  /** Its name. */
  name: string;
  /** The program, or the host of the address; empty for an entry with a problem. */
  place: string;
  /** Whether chats use it. */
  enabled: boolean;
  /** Why it cannot be used; empty if it can. */
  problem: string;
}
/** The MCP servers of a user. */
export interface McpServerList {
  /** Whether chats may use servers here. */
  allowed: boolean;
  /** The path of the file, for the user who runs the server; else empty. */
  file: string;
  /** Why the file cannot be used; empty if it can. */
  problem: string;
  servers: readonly McpServerInfo[];
}
/** A person's message; begins a turn. */
export interface MessageSentEvent extends EventHead {
  kind: 'message';
  /** The chat's id. */
  chat: string;
  /** As the person wrote it. */
  text: string;
  /** The path of the notebook that the turn is bound to, or None. */
  notebook: string | null;
  /** The permission mode of the turn. */
  mode: Mode;
  /** The model that answers. */
  model: string;
  /** One line for each attachment. */
  attachments: readonly string[];
  /** Number of turns of this chat that are ahead of it. */
  waits: number;
  /** The active cell when it was sent. */
  active_cell: string | null;
  /** The turn that it replaces, with all later turns; None for none. */
  replaces: string | null;
  /** The id that the sender chose for the message; None for none. */
  message: string | null;
}
/** Models that answer in chats. */
export interface ModelsInfo {
  provider: string;
  label: string;
  ready: boolean;
  model: string;
  models: readonly string[];
  /**
   * Source of the credentials: environment, project (the file of keys that the settings name) or
   * stored (the connection of the panel).
   */
  source: string | null;
  hint: string;
  /** Display names of the further agents in `models`, by their names there. */
  agents?: Readonly<Record<string, string>>;
}
/** A notice for the person. */
export interface NoticeAddedEvent extends EventHead {
  kind: 'notice';
  text: string;
}
/** The agent's settings and commands from now on, until the next such event. */
export interface OptionsOfferedEvent extends EventHead {
  kind: 'offer';
  settings: readonly AgentSetting[];
  commands: readonly AgentSlashCommand[];
}
/** One output of a cell, or all, with its images. */
export interface OutputAttachment {
  title?: string | null;
  kind: 'output';
  cell: string;
  output?: number | null;
}
/** The pending requests; first event of a stream. */
export interface PendingPermissionRequests {
  kind: 'waiting';
  permissions: readonly PermissionInfo[];
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
  /** The tool's effect: WRITE or EXECUTE. */
  effect: Effect;
  /** The notebook's path, or None. */
  notebook: string | null;
  /** The proposal as plain text. */
  preview: string;
  /** The diff or the code (`model.proposals.Proposal.as_dict`). */
  proposal: Proposal;
  /** The possible answers. */
  answers: readonly Answer[];
}
/** A permission request. */
export interface PermissionInfo {
  id: string;
  /** Name of the caller. */
  author: string;
  /** Key of a caller without a name. */
  caller: string | null;
  /** Id of the chat that makes the call, also by code in its kernel. */
  chat: string | null;
  /** The interface of the call. */
  interface: string;
  tool: string;
  effect: Effect;
  notebook: string | null;
  /** The diff or the code. */
  proposal: Proposal;
  /** The proposal as plain text. */
  preview: string;
  answers: readonly Answer[];
  /** Seconds since the epoch. */
  created: number;
  /** Whether the call's chat or client asks a person. */
  within_call: boolean;
}
/** A new pending request. */
export interface PermissionRequestAdded {
  kind: 'asked';
  permission: PermissionInfo;
}
/** A request is no longer pending. */
export interface PermissionRequestSettled {
  kind: 'settled';
  id: string;
  /** The user's answer, over any interface; or that it expired or its caller disconnected. */
  outcome: Outcome;
}
/** A permission request is no longer pending: it was answered, or its call was stopped. */
export interface PermissionSettledEvent extends Omit<EventHead, 'id'> {
  /** The request's. */
  id: string;
  kind: 'permission_settled';
  /** The call that waited; its result has the outcome. */
  call: string;
}
/** A prompt, for a list of them. */
export interface PromptInfo {
  /** What a person types after `/`. */
  name: string;
  /** What it is for; may be empty. */
  description: string;
  /** Its arguments; may be empty. */
  hint: string;
  /** Where it is stored: in the user's folder, or in the project. */
  origin: 'user' | 'project';
  /** The file, relative to the root or to the home folder. */
  path: string;
}
/** All effects of a call. */
export interface Proposal {
  /** One sentence for a person. */
  title: string;
  /** The steps, in order. */
  steps: readonly ProposalStep[];
  /** The path of the notebook that the call concerns; None for none or several. */
  notebook: string | null;
  /** The kernel that runs the code; None if nothing runs. */
  kernel: ProposalKernel | null;
}
/** The cell that a step concerns. */
export interface ProposalCell {
  /** Its key (`model.cells.Cell.key`). */
  id: string;
  /** Its position, from 0. */
  index: number;
  /** code, markdown or raw. */
  type: 'code' | 'markdown' | 'raw';
  /** Its versioned address. */
  address: string;
}
/** The kernel of a call: the id of a running kernel, or the kernelspec of a new one. */
export interface ProposalKernel {
  id: string | null;
  name: string | null;
}
/** A line of a diff or of code, verbatim. */
export interface ProposalLine {
  mark: ' ' | '+' | '-' | '@';
  text: string;
}
/** One step of a proposal. */
export interface ProposalStep {
  /** The effect. */
  kind: StepKind;
  /** One sentence for a person, who counts cells from 1. */
  title: string;
  /** The cell; None for a new one. */
  cell: ProposalCell | null;
  /** The index that a cell is inserted at or moved to, from 0. */
  to: number | null;
  /** Whether the lines marked with a space or `+` are run. */
  runs: boolean;
  /** The diff or the code. If the step runs code, all of the code. */
  lines: readonly ProposalLine[];
  /** The type of an inserted cell; None for another step. */
  cell_type: 'code' | 'markdown' | 'raw' | null;
}
/**
 * A question of an agent. The person may also answer with other text. `header` names its subject.
 */
export interface Question {
  text: string;
  header: string;
  options: readonly QuestionOption[];
  multiple: boolean;
}
/** A call asks the person questions; `POST /api/tk-ai/chats/{id}/answer` answers them. */
export interface QuestionAskedEvent extends EventHead {
  kind: 'question';
  call: string;
  tool: string;
  questions: readonly Question[];
}
/** An answer that an agent offers. */
export interface QuestionOption {
  label: string;
  description: string;
}
/**
 * Questions are no longer pending; `given` has the answers to each, and is empty without answers.
 */
export interface QuestionSettledEvent extends EventHead {
  kind: 'question_settled';
  call: string;
  given: readonly (readonly string[])[];
}
/** A request to the model failed and is retried. */
export interface RequestRetriedEvent extends EventHead {
  kind: 'retry';
  /** The number of this attempt, from 1. */
  attempt: number;
  /** Maximum number of attempts. */
  attempts: number;
  /** The reason, in a few words. */
  reason: string;
}
/** Text that the person selected in a cell or a file, as it was at that time. */
export interface SelectionAttachment {
  title?: string | null;
  kind: 'selection';
  text: string;
  cell?: string | null;
  path?: string | null;
  first_line: number;
  last_line: number;
}
/** A standing approval. */
export interface StandingApprovalInfo {
  id: string;
  effect: Effect;
  /** The only tool that it applies to; None for all tools of the effect. */
  tool: string | null;
  /** The notebook that it applies to; None if it applies to a caller. */
  notebook: string | null;
  /** The key of the caller that it applies to, for a chat its id; None for a notebook. */
  caller: string | null;
  /** The display name of the caller that asked. */
  author: string;
  /** The interface of that caller. */
  interface: string;
  /** Seconds since the epoch. */
  created: number;
}
/** The stored connection without its secret, for the panel. */
export interface StoredConnectionInfo {
  /** anthropic, oauth or compatible. */
  provider: string;
  /** The only address that the secret is sent to. */
  base_url: string;
  /** The default model; empty for the provider's. */
  model: string;
  /** At most the last four characters of the secret; None without one, or if it is short. */
  ending: string | null;
  /** Whether chats use this connection; else another source takes precedence. */
  in_force: boolean;
}
/** A piece of Claude's text. */
export interface TextDeltaEvent extends EventHead {
  kind: 'text';
  /** Number of the block in this turn, from 0, counting thinking blocks. */
  block: number;
  /** The piece, which follows the block's earlier ones. */
  text: string;
}
/** A piece of Claude's thinking; see `TextDelta`. */
export interface ThinkingDeltaEvent extends EventHead {
  kind: 'thinking';
  block: number;
  text: string;
}
/** An item of the agent's to-do list. */
export interface TodoItem {
  text: string;
  status: 'pending' | 'in_progress' | 'completed';
}
/** The agent's to-do list of the turn, as it is now. */
export interface TodoListedEvent extends EventHead {
  kind: 'todo_list';
  /** All items, in order. */
  items: readonly TodoItem[];
}
/** A call has ended. */
export interface ToolAnsweredEvent extends EventHead {
  kind: 'tool_result';
  /** The call. */
  call: string;
  /** The tool's name. */
  tool: string;
  /** Whether it succeeded. */
  ok: boolean;
  /** The text that Claude reads. */
  text: string;
  /** The structured result, or `{"error": …}`. */
  structured: Readonly<Record<string, unknown>>;
  /** Images, `{"data": base64, "mime": …}`. */
  images: readonly ToolResultImage[];
  /** Duration, without the time that a person took to approve it. */
  seconds: number;
}
/** Claude calls a tool. */
export interface ToolCalledEvent extends EventHead {
  kind: 'tool_call';
  /** The call's id; progress, permission, changes and the result name it. */
  call: string;
  /** The tool's name in the registry. */
  tool: string;
  /** The arguments, unchanged. */
  arguments: Readonly<Record<string, unknown>>;
}
/** Progress of a running call, one line. */
export interface ToolProgressedEvent extends EventHead {
  kind: 'tool_progress';
  call: string;
  message: string;
}
/** An image in a tool's result. */
export interface ToolResultImage {
  /** Base64. */
  data: string;
  mime: string;
}
/** The last event of a turn. */
export interface TurnEndedEvent extends EventHead {
  kind: 'done';
  /** How it ended. */
  end: 'done' | 'planned' | 'stopped' | 'failed';
  /** Claude's final text: all text after the last call. */
  text: string;
}
/** The turn failed; `error` is `ToolError.as_dict`. */
export interface TurnFailedEvent extends EventHead {
  kind: 'error';
  error: ErrorInfo;
}
/** The turn started: the agent gets the message. */
export interface TurnStartedEvent extends EventHead {
  kind: 'began';
}
/** The result of an undo in one notebook. */
export interface UndoResult {
  /** The path. */
  notebook: string;
  /** The keys of the restored cells. */
  cells: readonly string[];
  /** Sentences about the changes that stay, with reasons. */
  left: readonly string[];
  /** The known keys of the cells of these changes. */
  stayed: readonly string[];
}
/** The result of an undo. */
export interface UndoneChanges {
  undone: readonly UndoResult[];
  /** Numbers of entries without changes that can be undone in this notebook (any more). */
  missing: readonly number[];
}
/** The undone changes and those that stay, by notebook. */
export interface UndoneTurn {
  notebooks: readonly UndoResult[];
}
/** Usage of the turn. */
export interface UsageReportedEvent extends EventHead {
  kind: 'usage';
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  /**
   * Cost of the agent's session up to the end of the turn, in US dollars, as the agent reports it;
   * None if unknown.
   */
  session_cost_usd: number | null;
  /** Duration from the message to the end. */
  seconds: number;
}
/** A variable. */
export interface Variable {
  name: string;
  type: string;
  shape?: string | null;
  size?: number | null;
  value?: string | null;
}
/**
 * A variable of the notebook's kernel: its type and value; for a table, its columns and first rows.
 */
export interface VariableAttachment {
  title?: string | null;
  kind: 'variable';
  name: string;
}
/** A kernel's variables. */
export interface VariableList {
  notices?: readonly string[];
  variables: readonly Variable[];
  more?: number;
  running?: boolean;
}
export type Attachment =
  | CellAttachment
  | OutputAttachment
  | ErrorAttachment
  | VariableAttachment
  | FileAttachment
  | FolderAttachment
  | SelectionAttachment
  | ImageAttachment;
export type ChatEvent =
  | MessageSentEvent
  | TurnStartedEvent
  | TextDeltaEvent
  | ThinkingDeltaEvent
  | BlocksDiscardedEvent
  | ToolCalledEvent
  | ToolProgressedEvent
  | ToolAnsweredEvent
  | PermissionAskedEvent
  | PermissionSettledEvent
  | QuestionAskedEvent
  | QuestionSettledEvent
  | CellChangedEvent
  | ChatRestoredEvent
  | TodoListedEvent
  | OptionsOfferedEvent
  | UsageReportedEvent
  | RequestRetriedEvent
  | NoticeAddedEvent
  | TurnFailedEvent
  | TurnEndedEvent;
export type PermissionEvent =
  | PendingPermissionRequests
  | PermissionRequestAdded
  | PermissionRequestSettled;
