import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';

import type { IChannel } from '../api/channel';
import { ApiError, type ChatApi } from '../api/client';
import type { Answer, ErrorInfo, PermissionEvent, PermissionInfo } from '../api/events';
import type { AppStore } from '../state/app';
import { reduceRequests } from '../state/requests';

/** Approval requests: answers those of other agents. The pending ones are in the store. */
export interface IQuestions {
  /** Answer a request. Return the error if it is still pending; else null. */
  answer(request: PermissionInfo, answer: Answer, message?: string): Promise<ErrorInfo | null>;
}

export const IQuestions = new Token<IQuestions>(
  'tk-ai-extension:IQuestions',
  'What agents over MCP or REST need an approval for, and the way to answer.'
);

/** Syncs the pending requests in the store with the server. */
export class Questions implements IQuestions, IDisposable {
  /**
   * @param _channel - Delivers the requests.
   * @param _routes - Sends the answers.
   * @param _store - Holds the pending requests.
   */
  constructor(
    private readonly _channel: IChannel,
    private readonly _routes: Pick<ChatApi, 'answer'>,
    private readonly _store: AppStore
  ) {}

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Subscribe to requests. */
  follow(): void {
    this._following ??= this._channel.subscribe<PermissionEvent>(
      { permissions: true },
      { take: event => this._take(event) }
    );
  }

  async answer(
    request: PermissionInfo,
    answer: Answer,
    message?: string
  ): Promise<ErrorInfo | null> {
    try {
      await this._routes.answer(request.id, answer, message);
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      // What is not found was answered elsewhere, or has expired.
      if (error.problem.code !== 'not_found') {
        return error.problem;
      }
    }
    this._take({ kind: 'settled', id: request.id, outcome: answer });
    return null;
  }

  dispose(): void {
    this._disposed = true;
    this._following?.dispose();
  }

  private _take(event: PermissionEvent): void {
    this._store.update(state => {
      const requests = reduceRequests(state.requests, event);
      return requests === state.requests ? state : { ...state, requests };
    });
  }

  private _following: IDisposable | null = null;
  private _disposed = false;
}
