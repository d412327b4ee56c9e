import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IChannel } from '../api/channel';
import {
  ApiError,
  type ChatApi,
  type ICellsByEntry,
  type IMessage,
  type PlanAnswer
} from '../api/client';
import type { ChatEvent, CombinedChange, UndoResult } from '../api/events';
import { quietly } from '../api/reads';
import { reduce } from '../state/reduce';
import { type AppStore, type IOpenChat, isActive, NEW_CHAT, openChat, without } from '../state/app';
import { EMPTY, isBusy } from '../state/chat';
import { pathAfter } from '../state/moves';

/** The routes that a chat needs. */
export type Routes = Pick<
  ChatApi,
  | 'answerPlan'
  | 'answerQuestions'
  | 'chat'
  | 'keep'
  | 'combinedChanges'
  | 'restore'
  | 'send'
  | 'stop'
  | 'undo'
>;

/**
 * An open chat: syncs its state in the store with the server until it is disposed.
 *
 * A new chat has no id until its first message was sent.
 */
export class ChatModel {
  /**
   * @param key - The chat's key in the store.
   */
  constructor(
    private readonly _api: Routes,
    private readonly _channel: IChannel,
    private readonly _store: AppStore,
    readonly key: string,
    id: string | null = null
  ) {
    this._id = id;
    this._set({ ...NEW_CHAT, id, loaded: id === null });
  }

  /** The chat's id; null until its first message was sent. */
  get id(): string | null {
    return this._id;
  }

  get state(): IOpenChat {
    return openChat(this._store.state, this.key);
  }

  /** Whether a turn runs or is queued. */
  get busy(): boolean {
    return isBusy(this.state);
  }

  /** Whether a turn runs or is queued, or a request is pending. */
  get active(): boolean {
    return this._sends > 0 || this._reading !== null || isActive(this.state);
  }

  /** Return the message of a turn that was sent from this page; null for others. */
  sent(turn: string): IMessage | null {
    return this._sent.get(turn) ?? null;
  }

  /** Emitted when the chat may have become inactive. */
  get idle(): ISignal<this, void> {
    return this._idle;
  }

  /** Emitted with each new event, but not with events of the past that are read. */
  get happened(): ISignal<this, ChatEvent> {
    return this._happened;
  }

  /** Read past events, and subscribe to new ones. */
  async load(): Promise<void> {
    await this._try(id => this._read(id));
    this._follow();
  }

  /** Handle changes that may have been kept or undone. */
  readonly recheck = (): void => this._set({ decided: this.state.decided + 1 });

  /** Read the chat again if it is about a renamed or deleted file: the server has its current path. */
  moved(old: string): void {
    const isIn = (path: string | null): boolean =>
      path !== null && pathAfter(path, old, null) === null;
    this.recheck();
    if (this.state.turns.some(({ notebook }) => isIn(notebook))) {
      this._isOutdated = true;
      this._detach();
      this._follow();
    }
  }

  /**
   * Send a message. Return whether the server accepted it.
   *
   * Messages are sent one after the other, so that they stay in order and the second one of a new
   * chat has the chat's id.
   */
  async send(message: IMessage): Promise<boolean> {
    const stops = this._stops;
    const sending = this._sending.then(() => stops === this._stops && this._send(message));
    this._sends++;
    this._sending = sending
      .catch(() => undefined)
      .then(() => {
        this._sends--;
        this._idle.emit();
      });
    return sending;
  }

  /** Answer the plan of a turn. Return whether the server accepted it. */
  async answerPlan(plan: string, answer: PlanAnswer): Promise<boolean> {
    const stops = this._stops;
    const begun = await this._try(id => this._api.answerPlan(id, plan, answer));
    if (begun !== null) {
      this._set({ expected: begun.turn });
      this._follow();
      if (stops !== this._stops) {
        await this.stop(begun.turn);
      }
    }
    return begun !== null;
  }

  /** Answer the questions of a call, or skip them. Return whether the server accepted it. */
  async answer(call: string, answers: readonly (readonly string[])[]): Promise<boolean> {
    return (await this._try(id => this._api.answerQuestions(id, call, answers))) !== null;
  }

  /**
   * Stop the running turn and those in the queue, or one of them.
   *
   * Messages that are not sent yet are withdrawn, and what a sent one begins is stopped, too.
   */
  async stop(turn?: string): Promise<void> {
    if (turn === undefined) {
      this._stops++;
    }
    await this._try(id => this._api.stop(id, turn));
  }

  /** Keep changes in a notebook. Return whether that succeeded; an error is in `problem`. */
  async keep(notebook: string, entries: ICellsByEntry): Promise<boolean> {
    const kept = await this._try(() => this._api.keep(notebook, entries).then(() => true));
    this.recheck();
    return kept === true;
  }

  /** Undo changes in a notebook. Return null on an error, which is in `problem`. */
  async undo(notebook: string, entries: ICellsByEntry): Promise<UndoResult[] | null> {
    const undone = await this._try(() => this._api.undo(notebook, entries));
    this.recheck();
    return undone;
  }

  /** Restore the chat to before a turn. Return null on an error, which is in `problem`. */
  async restore(turn: string): Promise<readonly UndoResult[] | null> {
    const undone = await this._try(id => this._api.restore(id, turn));
    this.recheck();
    return undone;
  }

  /** Return the combined changes of a turn; null on an error. */
  async combinedChanges(turn: string): Promise<readonly CombinedChange[] | null> {
    const id = this._id;
    return id === null ? null : quietly(this._api.combinedChanges(id, turn));
  }

  /** Reconnect now. */
  reconnect(): void {
    this._channel.retry();
    this._follow();
  }

  /** Dismiss the error. */
  dismiss(): void {
    this._set({ problem: null });
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    this._detach();
    this._store.update(state => ({ ...state, open: without(state.open, this.key) }));
    Signal.clearData(this);
  }

  /** Handle an event of the server. */
  private _take(event: ChatEvent): void {
    this._set(reduce(this.state, [event]), true);
    this._happened.emit(event);
    if (event.kind === 'done') {
      this._idle.emit();
    }
  }

  private async _send(message: IMessage): Promise<boolean> {
    const stops = this._stops;
    this._set({ problem: null });
    try {
      const { chat, turn } = await this._api.send({ ...message, chat: this.id ?? undefined });
      this._id = chat;
      this._set({ id: chat, expected: turn });
      this._sent.set(turn, message);
      if (stops !== this._stops) {
        void this.stop(turn);
      }
    } catch (error) {
      // The server may have it all the same: then its event comes.
      this._failed(error);
      return false;
    }
    this._follow();
    return true;
  }

  /** Read past events. Concurrent calls share one request. */
  private _read(id: string): Promise<void> {
    const read = async (): Promise<void> => {
      const isOutdated = this._isOutdated;
      this._isOutdated = false;
      const { events } = await this._api.chat(id, isOutdated ? 0 : this.state.last);
      // The channel may have delivered newer events by now.
      this._set({ ...reduce(isOutdated ? EMPTY : this.state, events), loaded: true });
    };
    this._reading ??= read().finally(() => {
      this._reading = null;
      this._idle.emit();
    });
    return this._reading;
  }

  /**
   * Subscribe. An idle chat is subscribed, too: another window, a cell or a command line may continue
   * it.
   */
  private _follow(): void {
    const { id } = this;
    if (this._following === null && id !== null && !this._disposed) {
      this._following = this._channel.subscribe<ChatEvent>(
        { chat: id },
        {
          // Otherwise past events would be emitted as new ones.
          prepare: async () => {
            if (!this.state.loaded || this._isOutdated) {
              await this._read(id);
              // A former attempt may have failed.
              this._set({ problem: null });
            }
          },
          last: () => this.state.last,
          live: isReset => {
            this._set({ lost: false });
            if (isReset) {
              // The server does not know the former events: they are read again.
              this._isOutdated = true;
            } else {
              this.recheck();
            }
          },
          take: event => this._take(event),
          lost: () => this._set({ lost: true }),
          failed: error => {
            this._detach();
            this._failed(error);
          }
        }
      );
    }
  }

  private _detach(): void {
    this._following?.dispose();
    this._following = null;
    this._set({ lost: false });
  }

  /** Send what the person asks for, which alone sets or clears the error. */
  private async _try<T>(request: (id: string) => Promise<T>): Promise<T | null> {
    const { id } = this;
    if (id === null) {
      return null;
    }
    try {
      const answer = await request(id);
      this._set({ problem: null });
      return answer;
    } catch (error) {
      this._failed(error);
      return null;
    }
  }

  private _failed(error: unknown): void {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    this._set({ problem: error.problem });
  }

  /** Update the chat's state, unless the chat is disposed. */
  private _set(some: Partial<IOpenChat>, coalesced = false): void {
    if (this._disposed) {
      return;
    }
    const { key } = this;
    this._store.update(
      state => {
        const chat = openChat(state, key);
        const isSame = Object.entries(some).every(
          ([name, value]) => chat[name as keyof IOpenChat] === value
        );
        return isSame && key in state.open
          ? state
          : { ...state, open: { ...state.open, [key]: { ...chat, ...some } } };
      },
      { coalesced }
    );
  }

  private _id: string | null;
  // Events have the names of attachments, but not their content.
  private readonly _sent = new Map<string, IMessage>();
  /** How often the person has stopped all. */
  private _stops = 0;
  /** Whether the events must be read again from the first. */
  private _isOutdated = false;
  private _following: IDisposable | null = null;
  private _reading: Promise<void> | null = null;
  private _sending: Promise<void> = Promise.resolve();
  private _sends = 0;
  private _disposed = false;
  private readonly _idle = new Signal<this, void>(this);
  private readonly _happened = new Signal<this, ChatEvent>(this);
}
