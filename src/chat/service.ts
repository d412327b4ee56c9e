import { Token } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError, type ChatApi } from '../api/client';
import type { Answer, ChatEvent, ErrorInfo, PermissionEvent, PermissionInfo } from '../api/events';
import type { IChannel } from '../api/channel';
import { quietly } from '../api/reads';
import type { AppStore } from '../state/app';
import { pathAfter, stateAfter } from '../state/moves';
import { reduceRequests } from '../state/requests';
import { ChatModel } from './model';

/** An event of a chat, for plug-ins that show it outside of the panel. */
export interface IHappened {
  chat: ChatModel;
  event: ChatEvent;
}

/**
 * The user's chats, the approvals that agents wait for, and the models. Their state is in the store,
 * in sync with the server.
 */
export class Chats {
  /** @param api - The routes of the server. */
  constructor(
    readonly api: ChatApi,
    private readonly _channel: IChannel,
    readonly store: AppStore
  ) {
    _channel.opens.connect(() => void this.refresh());
  }

  /** Emitted when a person has kept or undone changes in an open notebook. */
  readonly decided = new Signal<this, void>(this);

  /** Emitted with each new event of the open chats. */
  get happened(): ISignal<this, IHappened> {
    return this._happened;
  }

  /** Open a chat by its id; a new one for null. Each `open` needs a `close`. */
  open(id: string | null): ChatModel {
    const known = this._open.find(chat => chat.id === id && id !== null);
    const chat = known ?? this._begin(id);
    this._shown.set(chat, (this._shown.get(chat) ?? 0) + 1);
    return chat;
  }

  /** Close a chat. It is disposed when it is closed by all who opened it, and inactive. */
  close(chat: ChatModel): void {
    const others = (this._shown.get(chat) ?? 0) - 1;
    if (others > 0) {
      this._shown.set(chat, others);
    } else {
      this._shown.delete(chat);
      this._sweep(chat);
    }
  }

  /** Read the list of chats and the models again, as when the connection opens. */
  async refresh(): Promise<void> {
    const number = ++this._reads;
    const [chats, models] = await Promise.all([
      quietly(this.api.chats()),
      quietly(this.api.models())
    ]);
    // The answer of a later read may have come before.
    if ((chats ?? models) !== null && number > this._shownRead) {
      this._shownRead = number;
      this.store.update(state => ({
        ...state,
        chats: chats ?? state.chats,
        models: models ?? state.models
      }));
    }
  }

  async rename(id: string, title: string): Promise<void> {
    await this.api.rename(id, title);
    await this.refresh();
  }

  async remove(id: string): Promise<void> {
    await this.api.remove(id);
    this._open.filter(chat => chat.id === id).forEach(chat => this._drop(chat));
    await this.refresh();
  }

  /** Handle a file or folder that was renamed or, if `path` is null, deleted. */
  async moved(old: string, path: string | null): Promise<void> {
    this.store.update(state => stateAfter(state, name => pathAfter(name, old, path)));
    this._open.forEach(chat => chat.moved(old));
    await this.refresh();
  }

  /** Follow the pending approval requests. */
  followRequests(): void {
    const take = (event: PermissionEvent): void => this._takeRequest(event);
    this._channel.subscribe<PermissionEvent>({ permissions: true }, { take });
  }

  /** Answer a request. Return the error if it is still pending; else null. */
  async answer(
    request: Pick<PermissionInfo, 'id'>,
    answer: Answer,
    message?: string
  ): Promise<ErrorInfo | null> {
    try {
      await this.api.answer(request.id, answer, message);
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      // A request that is not found was answered elsewhere, or has expired.
      if (error.problem.code !== 'not_found') {
        return error.problem;
      }
    }
    this._takeRequest({ kind: 'settled', id: request.id, outcome: answer });
    return null;
  }

  private _takeRequest(event: PermissionEvent): void {
    this.store.update(state => {
      const requests = reduceRequests(state.requests, event);
      return requests === state.requests ? state : { ...state, requests };
    });
  }

  private _begin(id: string | null): ChatModel {
    const chat = new ChatModel(this.api, this._channel, this.store, `chat ${++this._count}`, id);
    this._open = [...this._open, chat];
    chat.happened.connect((_, event) => {
      this._happened.emit({ chat, event });
      if (event.kind === 'message' || event.kind === 'done') {
        void this.refresh();
      }
    });
    // In a microtask, after all listeners of the last event.
    chat.idle.connect(() => queueMicrotask(() => this._sweep(chat)));
    void chat.load();
    return chat;
  }

  /** Dispose a chat that is closed and inactive. */
  private _sweep(chat: ChatModel): void {
    if (!this._shown.has(chat) && !chat.active) {
      this._drop(chat);
    }
  }

  private _drop(chat: ChatModel): void {
    chat.dispose();
    this._open = this._open.filter(each => each !== chat);
    this._shown.delete(chat);
  }

  private _reads = 0;
  private _shownRead = 0;
  private _count = 0;
  private _open: readonly ChatModel[] = [];
  /** How often each chat is open. */
  private readonly _shown = new Map<ChatModel, number>();
  private _happened = new Signal<this, IHappened>(this);
}

export type IChats = Chats;

/** The chats, for plug-ins that show or send something. */
export const IChats = new Token<IChats>(
  'tk-ai-extension:IChats',
  'The chats with Claude: what happens in them, and the way to send a message.'
);
