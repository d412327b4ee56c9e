import type { ServerConnection } from '@jupyterlab/services';

import { answerOf, listen, request } from './client';
import type { IProposal, Leave } from './events';

/** A call that needs the person's approval. */
export interface IRequest {
  id: string;
  /** Who wants to act: what a client calls itself, else the user. */
  author: string;
  /** The key of a caller that gives no name. */
  caller: string | null;
  /** The way in by which the call came. */
  face: string;
  tool: string;
  effect: 'READ' | 'WRITE' | 'EXECUTE';
  notebook: string | null;
  /** What would happen, as plain text. */
  preview: string;
  /** The same as data. */
  proposal?: IProposal | null;
  answers: Leave[];
  /** Seconds since the epoch. */
  created: number;
  /** Whether somebody is asked within the call: in its chat, or by its client. */
  within_call: boolean;
}

/** How a request ended: by an answer, by nobody's for too long, or with its caller. */
export type Outcome = Leave | 'expired' | 'withdrawn';

/** What becomes of the requests: a line begins with those that wait. */
export type RequestEvent =
  | { kind: 'waiting'; permissions: IRequest[] }
  | { kind: 'asked'; permission: IRequest }
  | { kind: 'settled'; id: string; outcome: Outcome };

/** The routes of the requests for permission. */
export class PermissionsApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** Answers a request; a denial may have a message for whoever asked. */
  async answer(id: string, answer: Leave, message?: string): Promise<void> {
    const path = `permissions/${encodeURIComponent(id)}`;
    await request(this._settings, 'POST', path, answerOf(answer, message));
  }

  /**
   * What becomes of the user's requests, until the line is cut or `signal` aborts.
   *
   * @throws ApiError - the server cannot be reached, or does not tell.
   */
  async *follow(signal: AbortSignal): AsyncGenerator<RequestEvent, void, undefined> {
    for await (const event of listen(this._settings, 'permissions', signal)) {
      if (event !== null) {
        yield event.value as RequestEvent;
      }
    }
  }
}
