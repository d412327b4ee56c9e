import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IChannel } from '../api/channel';
import { ApiError } from '../api/client';
import type { Answer, ErrorInfo, Outcome, PermissionEvent, PermissionInfo } from '../api/events';
import type { PermissionsApi } from '../api/permissions';
import type { AppStore } from '../state/app';
import { reduceRequests } from '../state/requests';

/** A request that waits no more. */
export interface IEnded {
  request: PermissionInfo;
  /** Null where it ended while nobody looked. */
  outcome: Outcome | null;
  /** Whether it was answered in this page. */
  here: boolean;
}

/** What agents ask that are not the panel's own chats. */
export interface IQuestions {
  /** Emitted for each request once it is known of. */
  readonly asked: ISignal<IQuestions, PermissionInfo>;
  /** Emitted for each that waits no more. */
  readonly ended: ISignal<IQuestions, IEnded>;
  /** Answers one; what went wrong, where it still waits afterwards. */
  answer(request: PermissionInfo, answer: Answer, message?: string): Promise<ErrorInfo | null>;
}

export const IQuestions = new Token<IQuestions>(
  'tk-ai-extension:IQuestions',
  'What agents over MCP or REST need an approval for, and the way to answer.'
);

/** The requests that wait, kept up with the server for as long as somebody looks. */
export class Questions implements IQuestions, IDisposable {
  /**
   * @param _channel - brings the requests.
   * @param _routes - answers them.
   * @param _store - takes those that wait.
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

  /** Follows the requests from now on. */
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
      if (error.problem.code !== 'permission_not_found') {
        return error.problem;
      }
      // Somebody was faster, or it has expired.
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
    for (const request of before) {
      if (!waiting.includes(request)) {
        this._ended.emit({ request, outcome, here: this._answering.has(request.id) });
      }
    }
    for (const request of waiting) {
      if (!before.includes(request)) {
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
