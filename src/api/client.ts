import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type {
  Answer,
  Attachment,
  ChatEvent,
  ChatInfo,
  ChatSetupInfo,
  ConnectionInfo,
  ErrorInfo,
  Mode,
  ModelsInfo,
  CombinedChange,
  CombinedChanges,
  StandingApprovalInfo,
  UndoResult,
  UndoneChanges,
  UndoneTurn,
  VariableList
} from './events';

/** The body of a request that sends a message. */
export interface IMessage {
  message: string;
  /** An id of it. Sent again under the same id, it begins no second turn. */
  id?: string;
  chat?: string | undefined;
  notebook?: string | undefined;
  /** A turn of the chat with the same notebook, which may have been renamed. */
  notebook_of?: string;
  active_cell?: string | undefined;
  selected_cells?: string[] | undefined;
  attachments?: Attachment[] | undefined;
  mode?: Mode;
  model?: string | undefined;
  /** Values of the agent's settings, by id. */
  options?: Readonly<Record<string, string>> | undefined;
  /** The turn that it replaces. */
  replaces?: string | undefined;
  /** Whether the changes of the replaced turns are undone. */
  undo_replaced?: boolean | undefined;
  /** The turn of the plan that it approves. */
  approves?: string;
}

/** Answer to a plan: approve it in a mode, or describe changes to it. */
export type PlanAnswer =
  | { answer: 'approve'; mode: Mode }
  | { answer: 'reject'; words: string; model?: string | undefined };

/** Changes to keep or undo: the cells of each entry of the journal. */
export type ICellsByEntry = Record<number, string[]>;

/** A provider that can be connected in the panel. */
export type Provider = 'anthropic' | 'oauth' | 'compatible';

/** A connection to a model, as a person enters it. */
export interface INewConnection {
  provider: Provider;
  /** Null keeps the stored key, for the same provider and address only. */
  secret: string | null;
  base_url: string;
  model: string;
}

/** HTTP statuses and codes of errors that a retry does not change, unless the server says so. */
const PERMANENT = new Set([400, 404, 405, 406, 409, 410, 414, 422, 501, 'path_refused']);

/** The error response of the server. */
export class ApiError extends Error {
  /** @param _status - The HTTP status; 0 without a response. */
  constructor(
    readonly problem: ErrorInfo,
    private readonly _status = 0
  ) {
    super(problem.message);
  }

  /** Whether a retry is pointless. Errors of a proxy, a login or the network are temporary. */
  get isPermanent(): boolean {
    const { problem, _status } = this;
    return !problem.retryable && [problem.code, _status].some(each => PERMANENT.has(each));
  }
}

/** Return what happened and what to do, as one text. */
export function problemText({ message, hint }: ErrorInfo): string {
  return [message, hint].join(' ').trim();
}

/** Error code: the server could not be reached. */
export const UNREACHABLE = 'unreachable';

/** The routes of the server. */
export class ChatApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** Return the chats; those with some words in their titles, messages or answers. */
  async chats(words = ''): Promise<ChatInfo[]> {
    const query = words === '' ? '' : URLExt.objectToQueryString({ search: words });
    return (await this._json<{ chats: ChatInfo[] }>('GET', `chats${query}`)).chats;
  }

  /** Return a chat with its events after one. */
  async chat(id: string, after = 0): Promise<{ chat: ChatInfo; events: ChatEvent[] }> {
    const events: ChatEvent[] = [];
    for (;;) {
      const page = await this._json<{ chat: ChatInfo; events: ChatEvent[]; next: number | null }>(
        'GET',
        `chats/${id}${after === 0 ? '' : `?after=${after}`}`
      );
      events.push(...page.events);
      if (page.next === null) {
        return { chat: page.chat, events };
      }
      after = page.next;
    }
  }

  rename(id: string, title: string): Promise<ChatInfo> {
    return this._json('PATCH', `chats/${id}`, { title });
  }

  remove(id: string): Promise<void> {
    return this._json('DELETE', `chats/${id}`);
  }

  models(): Promise<ModelsInfo> {
    return this._json('GET', 'models');
  }

  /** Stop the running turn and those in the queue, or one of them. */
  stop(id: string, turn?: string): Promise<void> {
    return this._json('POST', `chats/${id}/stop`, turn === undefined ? {} : { turn });
  }

  /** Answer a permission request. A denial may have a message for the agent. */
  answer(permission: string, answer: Answer, message?: string): Promise<void> {
    const body = answer === 'deny' && message ? { answer, message } : { answer };
    return this._json('POST', `permissions/${permission}`, body);
  }

  /**
   * Return what changes that are neither kept nor undone did to the cells of a notebook.
   *
   * @param cells - The keys of the cells; default: all.
   */
  async changesIn(
    notebook: string,
    cells: readonly string[] = []
  ): Promise<readonly CombinedChange[]> {
    const query = new URLSearchParams([
      ['notebook', notebook],
      ...cells.map(cell => ['cell', cell])
    ]);
    return (await this._json<CombinedChanges>('GET', `changes?${query}`)).changes;
  }

  /** Keep changes in a notebook. */
  async keep(notebook: string, entries: ICellsByEntry): Promise<void> {
    await request(this._settings, 'POST', 'changes/keep', { notebook, entries });
  }

  /** Undo changes in a notebook. A cell that was edited since is left. */
  async undo(notebook: string, entries: ICellsByEntry): Promise<UndoResult[]> {
    const body = { notebook, entries };
    const { undone, missing } = await this._json<UndoneChanges>('POST', 'changes/undo', body);
    const left = missing.flatMap(entry => entries[entry] ?? []);
    return [...undone, { notebook, cells: [], left, stayed: left }];
  }

  /** Restore a chat and its notebooks to before a turn. */
  async restore(id: string, turn: string): Promise<readonly UndoResult[]> {
    return (await this._json<UndoneTurn>('POST', `chats/${id}/restore`, { turn })).notebooks;
  }

  /** Return what a turn changed by cell, without what is undone. */
  async combinedChanges(id: string, turn: string): Promise<readonly CombinedChange[]> {
    return (await this._json<CombinedChanges>('GET', `chats/${id}/changes/${turn}`)).changes;
  }

  /** Export a chat as Markdown or as a notebook. */
  export(id: string, format: 'markdown' | 'notebook'): Promise<Blob> {
    return this._blob(`chats/${id}/export?format=${format}`);
  }

  /** Return the full text of a truncated output. */
  artifact(id: string): Promise<Blob> {
    return this._blob(`artifacts/${id}`);
  }

  /**
   * Send a message. Return the ids of its chat and turn.
   *
   * The events of the turn arrive on the channel.
   */
  send(message: IMessage): Promise<{ chat: string; turn: string }> {
    return this._json('POST', 'mcp/chat?wait=0', message);
  }

  /** Answer the plan of a turn. Return the ids of the chat and of the turn that follows. */
  answerPlan(
    id: string,
    plan: string,
    answer: PlanAnswer
  ): Promise<{ chat: string; turn: string }> {
    if (answer.answer === 'approve') {
      return this.send({ chat: id, approves: plan, mode: answer.mode, message: '' });
    }
    const { words, model } = answer;
    return this.send({ chat: id, notebook_of: plan, mode: 'plan', message: words, model });
  }

  /** Answer the questions of a call in a chat, or skip them. */
  answerQuestions(
    id: string,
    call: string,
    answers: readonly (readonly string[])[]
  ): Promise<object> {
    return this._json('POST', `chats/${id}/answer`, { call, answers });
  }

  /** Return what chats are set up with. */
  setup(): Promise<ChatSetupInfo> {
    return this._json('GET', 'setup');
  }

  /** Return the standing approvals. */
  async approvals(): Promise<readonly StandingApprovalInfo[]> {
    return (await this._json<{ approvals: StandingApprovalInfo[] }>('GET', 'approvals')).approvals;
  }

  /** Remove a standing approval. Return the others. */
  async removeApproval(id: string): Promise<readonly StandingApprovalInfo[]> {
    const path = `approvals/${encodeURIComponent(id)}`;
    return (await this._json<{ approvals: StandingApprovalInfo[] }>('DELETE', path)).approvals;
  }

  /** Return the connection to a model. The server never sends the key back. */
  connection(): Promise<ConnectionInfo> {
    return this._json('GET', 'connection');
  }

  /** Test a connection, and store it if it works. */
  connect(connection: INewConnection): Promise<ConnectionInfo> {
    return this._json('POST', 'connection', connection);
  }

  disconnect(): Promise<ConnectionInfo> {
    return this._json('DELETE', 'connection');
  }

  /**
   * List the variables of a notebook's kernel, by a part of their names.
   *
   * @throws ApiError - The kernel is busy, is not a Python kernel, or does not run.
   */
  variables(notebook: string, word: string): Promise<VariableList> {
    const pattern = /^\w+$/.test(word) ? { pattern: `*${word}*` } : {};
    return this._json('POST', 'tools/list_variables', { notebook, ...pattern });
  }

  private _json<T>(method: string, path: string, body?: object): Promise<T> {
    return requestJson<T>(this._settings, method, path, body);
  }

  private async _blob(path: string): Promise<Blob> {
    const response = await request(this._settings, 'GET', path);
    return bodyOf(() => response.blob());
  }
}

/**
 * Send a request to a route of the extension.
 *
 * @throws ApiError - The server cannot be reached, or answered with an error.
 */
export async function request(
  settings: ServerConnection.ISettings,
  method: string,
  path: string,
  body?: object,
  signal?: AbortSignal
): Promise<Response> {
  const url = URLExt.join(settings.baseUrl, 'api/tk-ai', path);
  const init: RequestInit = { method, signal: signal ?? null };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { 'Content-Type': 'application/json' };
  }
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(url, init, settings);
  } catch {
    throw unreachable();
  }
  if (!response.ok) {
    throw new ApiError(await problemOf(response), response.status);
  }
  return response;
}

/**
 * Send a request to a route of the extension, and parse the JSON response.
 *
 * @throws ApiError - As `request` does, or the response is incomplete.
 */
export async function requestJson<T>(
  settings: ServerConnection.ISettings,
  method: string,
  path: string,
  body?: object,
  signal?: AbortSignal
): Promise<T> {
  const response = await request(settings, method, path, body, signal);
  return bodyOf(async () => (await response.json()) as T);
}

/** Read the body of a response. If it is incomplete or not the server's, the server is unreachable. */
async function bodyOf<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch {
    throw unreachable();
  }
}

/** Return the error of a connection that failed or was lost. */
export function unreachable(): ApiError {
  return new ApiError({
    code: UNREACHABLE,
    message: 'The server cannot be reached.',
    hint: '',
    retryable: true
  });
}

async function problemOf(response: Response): Promise<ErrorInfo> {
  const unknown = { code: `http_${response.status}`, hint: '', retryable: response.status >= 500 };
  const status = `${response.status} ${response.statusText}`;
  try {
    const body = (await response.json()) as { error?: Partial<ErrorInfo>; message?: string };
    return { ...unknown, message: body.message ?? status, ...body.error };
  } catch {
    return { ...unknown, message: status };
  }
}
