import { type ISignal, Signal } from '@lumino/signaling';

import {
  ApiError,
  type ChatApi,
  type IMessage,
  type IUndone,
  type PlanAnswer,
  UNREACHABLE
} from '../api/client';
import type { ChatEvent, IProblem, Leave } from '../api/events';
import { reduce } from './reduce';
import { EMPTY, type IChatState, type IJournal, isBusy, type ITurn } from './state';

/** How long it waits before it asks for a lost stream again, in milliseconds; the last one stays. */
const PAUSES = [250, 500, 1000, 2000, 5000, 10000];

/** What a chat's routes are needed for here. */
export type Routes = Pick<
  ChatApi,
  'answer' | 'answerPlan' | 'changes' | 'chat' | 'events' | 'send' | 'stop' | 'undo'
>;

/** The state of the line to the server. */
export type Line = 'open' | 'lost';

/**
 * One chat: what is known of it, kept up with the server for as long as something happens in it.
 *
 * A chat that is new has no id until its first message was sent.
 */
export class ChatModel {
  constructor(
    private readonly _api: Routes,
    id: string | null = null
  ) {
    this._id = id;
  }

  /** The chat's id; null until its first message was sent. */
  get id(): string | null {
    return this._id;
  }

  get state(): IChatState {
    return this._state;
  }

  get line(): Line {
    return this._line;
  }

  /** What the server said to the last request that it did not carry out. */
  get problem(): IProblem | null {
    return this._problem;
  }

  /** Whether its past is there. */
  get loaded(): boolean {
    return this._id === null || this._loaded;
  }

  /** Whether a turn goes on or waits. */
  get busy(): boolean {
    return isBusy(this._state);
  }

  /** What of its changes stands; null where the server has not said so yet. */
  get journal(): IJournal | null {
    return this._journal;
  }

  /** The message of a turn as it was sent from this page; null for one that was not. */
  sent(turn: string): IMessage | null {
    return this._sent.get(turn) ?? null;
  }

  /** Emitted when the journal is new. */
  get journalChanged(): ISignal<this, void> {
    return this._journalChanged;
  }

  /** Emitted when anything else of the above is new. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What happens, as it happens; not what was read of the past. */
  get happened(): ISignal<this, ChatEvent> {
    return this._happened;
  }

  /** Reads what happened so far, and follows what still happens. */
  async load(): Promise<void> {
    if (this._id === null) {
      return;
    }
    await this._try(async id => {
      const { chat, events } = await this._api.chat(id);
      this._state = reduce(EMPTY, events);
      this._loaded = true;
      if (chat.busy || this.busy) {
        this._follow();
      }
    });
    await this.readJournal();
  }

  /** Asks what of its changes stands, where it made some. */
  async readJournal(): Promise<void> {
    if (this._id === null || !this._state.turns.some(hasChanges)) {
      return;
    }
    const ended = this._state.turns.filter(turn => turn.end !== null).map(turn => turn.id);
    try {
      this._journal = { ...(await this._api.changes(this._id)), ended: new Set(ended) };
      this._journalChanged.emit();
    } catch (error) {
      // What was known stays; it is asked again at the next occasion.
      if (!(error instanceof ApiError)) {
        throw error;
      }
    }
  }

  /** Sends a message; whether the server took it. */
  async send(message: IMessage): Promise<boolean> {
    this._problem = null;
    try {
      const sent = this._id === null ? message : { ...message, chat: this._id };
      const { chat, turn } = await this._api.send(sent);
      this._id = chat;
      this._loaded = true;
      this._expected = turn;
      this._sent.set(turn, message);
    } catch (error) {
      this._failed(error);
      return false;
    }
    this._follow();
    return true;
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
  async answer(permission: string, answer: Leave): Promise<void> {
    await this._try(() => this._api.answer(permission, answer));
  }

  /** Takes back what a turn changed; null where that was not possible, and `problem` says why. */
  async undo(turn: string, cells?: string[]): Promise<IUndone[] | null> {
    const undone = await this._try(id => this._api.undo(id, turn, cells));
    await this.readJournal();
    return undone;
  }

  /** Asks for a lost line at once. */
  reconnect(): void {
    this._wake();
  }

  /** Lets an error go that was seen. */
  dismiss(): void {
    this._problem = null;
    this._changed.emit();
  }

  dispose(): void {
    this._following?.abort();
    Signal.clearData(this);
  }

  /** Takes events as if the server had sent them. */
  private _take(events: ChatEvent[]): void {
    this._state = reduce(this._state, events);
    this._changed.emit();
    for (const event of events) {
      this._happened.emit(event);
      if (event.kind === 'done') {
        void this.readJournal();
      }
    }
  }

  private _follow(): void {
    if (this._following === null && this._id !== null) {
      this._following = new AbortController();
      void this._followUntilIdle(this._id, this._following.signal);
    }
    this._changed.emit();
  }

  /** Whether something goes on, or a turn that was sent has not been heard of. */
  private _hasMore(): boolean {
    const known =
      this._expected === null || this._state.turns.some(each => each.id === this._expected);
    return this.busy || !known;
  }

  private async _followUntilIdle(id: string, signal: AbortSignal): Promise<void> {
    let tries = 0;
    while (!signal.aborted && this._hasMore()) {
      try {
        for await (const event of this._api.events(id, this._state.last, signal)) {
          tries = 0;
          this._line = 'open';
          this._take([event]);
          if (!this._hasMore()) {
            break;
          }
        }
      } catch (error) {
        if (!isCut(error)) {
          this._failed(error);
          break;
        }
      }
      if (this._hasMore()) {
        this._line = 'lost';
        this._changed.emit();
        await this._pause(PAUSES[Math.min(tries++, PAUSES.length - 1)] ?? 0, signal);
      }
    }
    if (!signal.aborted) {
      this._following = null;
      this._line = 'open';
      this._changed.emit();
    }
  }

  /** Waits for so long, or until somebody asks for the line. */
  private async _pause(milliseconds: number, signal: AbortSignal): Promise<void> {
    let resolve: () => void = () => undefined;
    const woken = new Promise<void>(done => {
      resolve = done;
    });
    const timer = window.setTimeout(resolve, milliseconds);
    this._wake = resolve;
    window.addEventListener('online', resolve);
    signal.addEventListener('abort', resolve);
    await woken;
    window.clearTimeout(timer);
    window.removeEventListener('online', resolve);
    signal.removeEventListener('abort', resolve);
  }

  private async _try<T>(request: (id: string) => Promise<T>): Promise<T | null> {
    if (this._id === null) {
      return null;
    }
    try {
      const answer = await request(this._id);
      this._problem = null;
      this._changed.emit();
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
    this._problem = error.problem;
    this._changed.emit();
  }

  private _id: string | null;
  // The events name what went with a message, but do not hold it.
  private readonly _sent = new Map<string, IMessage>();
  private _state = EMPTY;
  private _journal: IJournal | null = null;
  private _line: Line = 'open';
  private _problem: IProblem | null = null;
  private _loaded = false;
  private _expected: string | null = null;
  private _following: AbortController | null = null;
  private _wake: () => void = () => undefined;
  private _changed = new Signal<this, void>(this);
  private _journalChanged = new Signal<this, void>(this);
  private _happened = new Signal<this, ChatEvent>(this);
}

function hasChanges(turn: ITurn): boolean {
  return turn.items.some(item => item.kind === 'call' && item.changes.length > 0);
}

function isCut(error: unknown): boolean {
  return error instanceof ApiError && error.problem.code === UNREACHABLE;
}
