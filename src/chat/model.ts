import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError, type ChatApi, type IMessage, type IUndo, type PlanAnswer } from '../api/client';
import type { Answer, ChatEvent, ErrorInfo, TakenBack } from '../api/events';
import { keepLine } from '../api/line';
import type { ILines, Need } from '../api/lines';
import { reduce } from './reduce';
import { EMPTY, type IChatState, type IJournal, isBusy, type ITurn } from './state';

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
  /** @param _isTold - whether a person who looks elsewhere is told of what happens. */
  constructor(
    private readonly _api: Routes,
    private readonly _lines: ILines,
    id: string | null = null,
    private readonly _isTold: () => boolean = () => true
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
  get problem(): ErrorInfo | null {
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

  /** Whether something goes on in it, or is on its way to or from the server. */
  get active(): boolean {
    return this._sends > 0 || this._reading !== null || this._hasMore();
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

  /** Says whether somebody sees it there. */
  look(viewer: object, seen: boolean): void {
    if (seen) {
      this._viewers.add(viewer);
    } else {
      this._viewers.delete(viewer);
    }
    this._lines.deal();
  }

  /** Reads what happened so far, and follows what still happens. */
  async load(): Promise<void> {
    await this._try(id => this._read(id));
    this._follow();
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
        this._changed.emit();
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
    this._hangUp();
    this._follow();
  }

  /** Lets an error go that was seen. */
  dismiss(): void {
    this._problem = null;
    this._changed.emit();
  }

  dispose(): void {
    this._disposed = true;
    this._hangUp();
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

  private async _send(message: IMessage): Promise<boolean> {
    this._problem = null;
    try {
      const isNew = this._id === null;
      const sent = this._id === null ? message : { ...message, chat: this._id };
      const { chat, turn } = await this._api.send(sent);
      this._id = chat;
      this._loaded ||= isNew;
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
      this._state = reduce(this._state, events);
      this._loaded = true;
    };
    this._reading ??= read().finally(() => (this._reading = null));
    return this._reading;
  }

  /** Whether something goes on, or a turn that was sent has not been heard of. */
  private _hasMore(): boolean {
    const known =
      this._expected === null || this._state.turns.some(each => each.id === this._expected);
    return this.busy || !known;
  }

  /** Follows what happens for as long as something does. */
  private _follow(): void {
    const id = this._id;
    if (this._following === null && id !== null && !this._disposed && this._hasMore()) {
      const following = new AbortController();
      this._following = following;
      const listener = {
        need: () => this._need(),
        open: (line: AbortSignal) => this._told(id, line),
        take: (event: ChatEvent | null) => this._hear(event),
        lost: () => this._setLine('lost')
      };
      void keepLine(this._lines, listener, following.signal).then(ended => {
        if (ended !== null && this._following === following) {
          this._hangUp();
          this._failed(ended);
        }
      });
    }
    this._changed.emit();
  }

  private _hangUp(): void {
    this._following?.abort();
    this._following = null;
    this._setLine('open');
  }

  private async *_told(
    id: string,
    line: AbortSignal
  ): AsyncGenerator<ChatEvent | null, void, undefined> {
    if (!this._loaded) {
      // Else what is read of the past would be told as if it happened now.
      await this._read(id);
      yield null;
    }
    yield* this._api.events(id, this._state.last, line);
  }

  private _hear(event: ChatEvent | null): boolean {
    this._setLine('open');
    if (event !== null) {
      this._take([event]);
    }
    if (!this._hasMore()) {
      this._hangUp();
    }
    return true;
  }

  private _setLine(line: Line): void {
    if (line !== this._line) {
      this._line = line;
      this._changed.emit();
    }
  }

  /** Who sees it waits for it, and who sees none of it only where they are told of it. */
  private _need(): Need {
    if (document.hidden) {
      return this._isTold() ? 'next' : 'none';
    }
    return this._viewers.size > 0 ? 'first' : 'next';
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
  private _problem: ErrorInfo | null = null;
  private _loaded = false;
  private _expected: string | null = null;
  private _following: AbortController | null = null;
  private _reading: Promise<void> | null = null;
  private _sending: Promise<void> = Promise.resolve();
  private _sends = 0;
  private readonly _viewers = new Set<object>();
  private _disposed = false;
  private _changed = new Signal<this, void>(this);
  private _journalChanged = new Signal<this, void>(this);
  private _happened = new Signal<this, ChatEvent>(this);
}

function hasChanges(turn: ITurn): boolean {
  return turn.items.some(item => item.kind === 'call' && item.changes.length > 0);
}
