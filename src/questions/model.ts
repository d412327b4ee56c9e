import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IChannel } from '../api/channel';
import { ApiError } from '../api/client';
import type { Answer, ErrorInfo, Outcome, PermissionEvent, PermissionInfo } from '../api/events';
import type { PermissionsApi } from '../api/permissions';
import type { AppStore } from '../state/app';
import { isInTranscript, reduceRequests } from '../state/requests';

/** A request that is no longer pending. */
export interface IEnded {
  request: PermissionInfo;
  /** Null if it ended while the connection was lost. */
  outcome: Outcome | null;
  /** Whether it was answered in this page. */
  here: boolean;
}

/** Approval requests. The signals leave out those in the transcript of an open chat. */
export interface IQuestions {
  /** Emitted with each new request. */
  readonly asked: ISignal<IQuestions, PermissionInfo>;
  /** Emitted with each request that is no longer pending. */
  readonly ended: ISignal<IQuestions, IEnded>;
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
    private readonly _routes: Pick<PermissionsApi, 'answer'>,
    private readonly _store: AppStore
  ) {}

  get asked(): ISignal<this, PermissionInfo> {
    return this._asked;
  }

  get ended(): ISignal<this, IEnded> {
    return this._ended;
  }

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
    this._answering.add(request.id);
    try {
      await this._routes.answer(request.id, answer, message);
      this._take({ kind: 'settled', id: request.id, outcome: answer });
      return null;
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      if (error.problem.code !== 'not_found') {
        return error.problem;
      }
      // It was answered elsewhere, or has expired.
      this._answering.delete(request.id);
      const others = this._waiting.filter(each => each.id !== request.id);
      this._show(others.length < this._waiting.length ? others : this._waiting, null);
      return null;
    } finally {
      this._answering.delete(request.id);
    }
  }

  dispose(): void {
    this._disposed = true;
    this._following?.dispose();
    Signal.clearData(this);
  }

  private _take(event: PermissionEvent): void {
    this._show(
      reduceRequests(this._waiting, event),
      event.kind === 'settled' ? event.outcome : null
    );
  }

  private _show(waiting: readonly PermissionInfo[], outcome: Outcome | null): void {
    const before = this._waiting;
    if (waiting === before) {
      return;
    }
    this._store.update(state => ({ ...state, requests: waiting }));
    const { open } = this._store.state;
    for (const request of before) {
      if (!waiting.includes(request) && !isInTranscript(request, open)) {
        this._ended.emit({ request, outcome, here: this._answering.has(request.id) });
      }
    }
    for (const request of waiting) {
      if (!before.includes(request) && !isInTranscript(request, open)) {
        this._asked.emit(request);
      }
    }
  }

  private get _waiting(): readonly PermissionInfo[] {
    return this._store.state.requests;
  }

  private _following: IDisposable | null = null;
  private _disposed = false;
  private readonly _answering = new Set<string>();
  private readonly _asked = new Signal<this, PermissionInfo>(this);
  private readonly _ended = new Signal<this, IEnded>(this);
}
