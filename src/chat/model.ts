import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IChannel } from '../api/channel';
import { ApiError, type ChatApi, type IMessage, type IUndo, type PlanAnswer } from '../api/client';
import type { Answer, ChatEvent, TakenBack } from '../api/events';
import { reduce } from '../state/reduce';
import { type AppStore, type IOpenChat, NEW_CHAT, openChat, without } from '../state/app';
import { EMPTY, isBusy, type ITurn } from '../state/chat';

/** What a chat's routes are needed for here. */
export type Routes = Pick<
  ChatApi,
  'answer' | 'answerPlan' | 'changes' | 'chat' | 'send' | 'stop' | 'undo'
>;

/**
 * One chat that is open: it keeps the chat's state in the store up with the server, for as long as
 * something happens in it.
 *
 * A chat that is new has no id until its first message was sent.
 */
export class ChatModel {
  /**
   * @param key - names the chat in the store.
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

  /** Whether a turn goes on or waits. */
  get busy(): boolean {
    return isBusy(this.state);
  }

  /** Whether something goes on in it, or is on its way to or from the server. */
  get active(): boolean {
    return this._sends > 0 || this._reading !== null || this._hasMore();
  }

  /** The message of a turn as it was sent from this page; null for one that was not. */
  sent(turn: string): IMessage | null {
    return this._sent.get(turn) ?? null;
  }

  /** Emitted when nothing may go on any more. */
  get idle(): ISignal<this, void> {
    return this._idle;
  }

  /** What happens, as it happens; not what was read of the past. */
  get happened(): ISignal<this, ChatEvent> {
    return this._happened;
  }

  /** Reads what happened so far, and follows what still happens. */
  async load(): Promise<void> {
    await this._try(id => this._read(id));
    this._follow();
    await this.readJournal();
  }

  /** Asks what of its changes stands, where it made some. */
  async readJournal(): Promise<void> {
    const id = this._id;
    const { turns } = this.state;
    if (id === null || !turns.some(hasChanges)) {
      return;
    }
    const ended = turns.filter(turn => turn.end !== null).map(turn => turn.id);
    try {
      this._set({ journal: { ...(await this._api.changes(id)), ended: new Set(ended) } });
    } catch (error) {
      // What was known stays; it is asked again at the next occasion.
      if (!(error instanceof ApiError)) {
        throw error;
      }
    }
  }

  /**
   * Sends a message; whether the server took it.
   *
   * Each goes once the one before it is there: so they stay in order, and the second one of a new
   * chat has the id that the first one was given.
   */
  async send(message: IMessage): Promise<boolean> {
    const sending = this._sending.then(() => this._send(message));
    this._sends++;
    this._sending = sending
      .catch(() => undefined)
      .then(() => {
        this._sends--;
        this._idle.emit();
      });
    return sending;
  }

  /** Answers a turn's plan; whether the server took it. */
  async answerPlan(plan: string, answer: PlanAnswer): Promise<boolean> {
    const begun = await this._try(id => this._api.answerPlan(id, plan, answer));
    if (begun !== null) {
      this._expected = begun.turn;
      this._follow();
    }
    return begun !== null;
  }

  /** Stops the turn that goes on and those that wait, or one of them. */
  async stop(turn?: string): Promise<void> {
    await this._try(id => this._api.stop(id, turn));
  }

  /** Answers a request for permission. */
  async answer(permission: string, answer: Answer, message?: string): Promise<void> {
    await this._try(() => this._api.answer(permission, answer, message));
  }

  /** Undoes changes in a notebook; null where that was not possible, and `problem` says why. */
  async undo(notebook: string, { entries, cells }: IUndo): Promise<TakenBack[] | null> {
    const undone = await this._try(() => this._api.undo(notebook, entries, cells));
    await this.readJournal();
    return undone;
  }

  /** Asks for a lost line at once. */
  reconnect(): void {
    this._channel.retry();
    this._follow();
  }

  /** Lets an error go that was seen. */
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

  /** Takes events as if the server had sent them. */
  private _take(events: ChatEvent[]): void {
    this._set(reduce(this.state, events), true);
    for (const event of events) {
      this._happened.emit(event);
      if (event.kind === 'done') {
        void this.readJournal();
      }
    }
  }

  private async _send(message: IMessage): Promise<boolean> {
    this._set({ problem: null });
    try {
      const { id } = this;
      const sent = id === null ? message : { ...message, chat: id };
      const { chat, turn } = await this._api.send(sent);
      this._id = chat;
      this._set({ id: chat });
      this._expected = turn;
      this._sent.set(turn, message);
    } catch (error) {
      this._failed(error);
      return false;
    }
    this._follow();
    return true;
  }

  /** Reads what happened so far; all who want to know it at one time wait for one answer. */
  private _read(id: string): Promise<void> {
    const read = async (): Promise<void> => {
      const { events } = await this._api.chat(id);
      // By now the stream may have told of more.
      this._set({ ...reduce(this.state, events), loaded: true });
    };
    this._reading ??= read().finally(() => {
      this._reading = null;
      this._idle.emit();
    });
    return this._reading;
  }

  /** Whether something goes on, or a turn that was sent has not been heard of. */
  private _hasMore(): boolean {
    const known =
      this._expected === null || this.state.turns.some(each => each.id === this._expected);
    return this.busy || !known;
  }

  /** Follows what happens for as long as something does. */
  private _follow(): void {
    const { id } = this;
    if (this._following === null && id !== null && !this._disposed && this._hasMore()) {
      this._following = this._channel.subscribe<ChatEvent>(
        { chat: id },
        {
          // Else what is read of the past would be told as if it happened now.
          prepare: async () => {
            if (!this.state.loaded) {
              await this._read(id);
            }
          },
          last: () => this.state.last,
          live: isReset => {
            // The server does not know what it once sent: it is read again.
            this._set({ lost: false, ...(isReset ? { ...EMPTY, loaded: false } : {}) });
            this._detachIfIdle(isReset);
          },
          take: event => {
            this._take([event]);
            this._detachIfIdle();
          },
          lost: () => this._set({ lost: true }),
          failed: error => {
            this._detach();
            this._failed(error);
          }
        }
      );
    }
  }

  /** Follows no more once nothing happens. */
  private _detachIfIdle(isReset = false): void {
    if (!isReset && !this._hasMore()) {
      this._detach();
    }
  }

  private _detach(): void {
    this._following?.dispose();
    this._following = null;
    this._set({ lost: false });
    this._idle.emit();
  }

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

  /** Replaces a part of the chat's state, which is there until the chat is disposed of. */
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
  // The events name what went with a message, but do not hold it.
  private readonly _sent = new Map<string, IMessage>();
  private _expected: string | null = null;
  private _following: IDisposable | null = null;
  private _reading: Promise<void> | null = null;
  private _sending: Promise<void> = Promise.resolve();
  private _sends = 0;
  private _disposed = false;
  private readonly _idle = new Signal<this, void>(this);
  private readonly _happened = new Signal<this, ChatEvent>(this);
}

function hasChanges(turn: ITurn): boolean {
  return turn.items.some(item => item.kind === 'call' && item.changes.length > 0);
}
