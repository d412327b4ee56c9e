import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type {
  Answer,
  ChatChanges,
  ChatEvent,
  ChatInfo,
  ErrorInfo,
  Mode,
  ModelsInfo,
  SentEvent,
  TakenBack
} from './events';
import { firstEvent } from './sse';

export type Attachment =
  | { kind: 'cell'; cell: string }
  | { kind: 'file'; path: string }
  | { kind: 'image'; mime: string; data: string };

/** A message as it is sent. */
export interface IMessage {
  message: string;
  chat?: string;
  notebook?: string;
  active_cell?: string;
  selected_cells?: string[];
  attachments?: Attachment[];
  mode?: Mode;
  model?: string;
  /** The turn of the chat that it takes the place of. */
  replaces?: string;
}

/** What a person says to a plan: to carry it out in a mode, or what is to be different. */
export type PlanAnswer =
  { answer: 'approve'; mode: Mode } | { answer: 'reject'; words: string; model?: string };

/** What an undo names: entries of the journal, and which of their cells. */
export interface IUndo {
  entries: number[];
  cells: string[];
}

/** The statuses of what does not become better by asking again: the server knows of no such thing. */
const PERMANENT = new Set([400, 404, 405, 406, 410, 414, 422]);

/** The server's answer to a request that it did not carry out. */
export class ApiError extends Error {
  /** @param _status - that of the answer; 0 where there was none. */
  constructor(
    readonly problem: ErrorInfo,
    private readonly _status = 0
  ) {
    super(problem.message);
  }

  /** Whether it stays so: not where a proxy, a login or the network stands before the server. */
  get isPermanent(): boolean {
    return PERMANENT.has(this._status);
  }
}

/** The server could not be reached. */
export const UNREACHABLE = 'unreachable';

/** The chat's routes. */
export class ChatApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  async chats(): Promise<ChatInfo[]> {
    return (await this._json<{ chats: ChatInfo[] }>('GET', 'chats')).chats;
  }

  async chat(id: string): Promise<{ chat: ChatInfo; events: ChatEvent[] }> {
    const events: ChatEvent[] = [];
    let after = 0;
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

  async rename(id: string, title: string): Promise<ChatInfo> {
    return this._json<ChatInfo>('PATCH', `chats/${id}`, { title });
  }

  async remove(id: string): Promise<void> {
    await this._json('DELETE', `chats/${id}`);
  }

  async models(): Promise<ModelsInfo> {
    return this._json<ModelsInfo>('GET', 'models');
  }

  /** Uses the key in the root folder's file from now on. */
  async trustFolder(): Promise<void> {
    await this._json('POST', 'trust', { trusted: true });
  }

  /** Stops the turn that goes on and those that wait, or one of them. */
  async stop(id: string, turn?: string): Promise<void> {
    await this._json('POST', `chats/${id}/stop`, turn === undefined ? {} : { turn });
  }

  async answer(permission: string, answer: Answer, message?: string): Promise<void> {
    await this._json('POST', `permissions/${permission}`, answerOf(answer, message));
  }

  /** Undoes entries of the journal in these cells of a notebook. */
  async undo(notebook: string, entries: number[], cells: string[]): Promise<TakenBack[]> {
    return undo(this._settings, notebook, entries, cells);
  }

  /** What of a chat's changes stands. */
  async changes(id: string): Promise<ChatChanges> {
    return this._json<ChatChanges>('GET', `chats/${id}/changes`);
  }

  /** A chat as Markdown or as a notebook. */
  async export(id: string, format: 'markdown' | 'notebook'): Promise<Blob> {
    return this._blob(`chats/${id}/export?format=${format}`);
  }

  /** The whole of an output that is too long for an answer. */
  async artifact(id: string): Promise<Blob> {
    return this._blob(`artifacts/${id}`);
  }

  /**
   * Sends a message, and gives the chat and the turn that it became once the server has it.
   *
   * The turn goes on by itself; its chat is followed on the channel.
   */
  async send(message: IMessage): Promise<{ chat: string; turn: string }> {
    return this._begin('mcp/chat', message);
  }

  /** Answers the plan of a turn; gives the turn that carries it out, or makes it anew. */
  async answerPlan(
    id: string,
    plan: string,
    answer: PlanAnswer
  ): Promise<{ chat: string; turn: string }> {
    return this._begin(`chats/${id}/plan`, { plan, ...answer });
  }

  private async _begin(path: string, body: object): Promise<{ chat: string; turn: string }> {
    const headers = { Accept: 'text/event-stream' };
    const response = await request(this._settings, 'POST', path, body, headers);
    return bodyOf(async () => {
      // The message itself.
      const { chat, turn } = JSON.parse((await firstEvent(response)) ?? '') as SentEvent;
      return { chat, turn };
    });
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
 * Asks one of the extension's routes.
 *
 * @throws ApiError - the server cannot be reached, or did not carry it out.
 */
export async function request(
  settings: ServerConnection.ISettings,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {}
): Promise<Response> {
  const url = URLExt.join(settings.baseUrl, 'api/tk-ai', path);
  const init: RequestInit = { method, headers };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...headers, 'Content-Type': 'application/json' };
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
 * Asks one of the extension's routes for a JSON value.
 *
 * @throws ApiError - as `request` does, and where the answer is cut.
 */
export async function requestJson<T>(
  settings: ServerConnection.ISettings,
  method: string,
  path: string,
  body?: object
): Promise<T> {
  const response = await request(settings, method, path, body);
  return bodyOf(async () => (await response.json()) as T);
}

/** Undoes entries of the journal in these cells of a notebook. */
export async function undo(
  settings: ServerConnection.ISettings,
  notebook: string,
  entries: number[],
  cells: string[]
): Promise<TakenBack[]> {
  const body = { notebook, entries, cells };
  return (await requestJson<{ undone: TakenBack[] }>(settings, 'POST', 'changes/undo', body))
    .undone;
}

/** Reads the body of an answer; one that is cut, or is somebody else's, is none of the server's. */
async function bodyOf<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch {
    throw unreachable();
  }
}

/** The error of a line that is cut, or was never there. */
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
  const said = `${response.status} ${response.statusText}`;
  try {
    const body = (await response.json()) as { error?: Partial<ErrorInfo>; message?: string };
    return { ...unknown, message: body.message ?? said, ...body.error };
  } catch {
    return { ...unknown, message: said };
  }
}

/** The body of an answer. */
export function answerOf(answer: Answer, message = ''): object {
  return answer === 'deny' && message !== '' ? { answer, message } : { answer };
}
