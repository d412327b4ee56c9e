import { Token } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import type { ChatApi } from '../api/client';
import type { ChatEvent } from '../api/events';
import type { IChannel } from '../api/channel';
import { inOrder, quietly } from '../api/reads';
import type { AppStore } from '../state/app';
import { ChatModel } from './model';

/** An event of a chat, for plug-ins that show it outside of the panel. */
export interface IHappened {
  chat: ChatModel;
  event: ChatEvent;
}

/** The user's chats. */
export interface IChats {
  /** The routes of the server. */
  readonly api: ChatApi;
  /** Emitted with each new event of the open chats. */
  readonly happened: ISignal<IChats, IHappened>;
  /** Open a chat by its id; a new one for null. Each `open` needs a `close`. */
  open(id: string | null): ChatModel;
  /** Close a chat. It is disposed when it is closed by all who opened it, and inactive. */
  close(chat: ChatModel): void;
  /** Read the list of chats and the models again, as when the connection opens. */
  refresh(): Promise<void>;
  rename(id: string, title: string): Promise<void>;
  remove(id: string): Promise<void>;
  /** Read again what is about a file or folder that was renamed or deleted. */
  moved(old: string): Promise<void>;
}

/** The chats, for plug-ins that show or send something. */
export const IChats = new Token<IChats>(
  'tk-ai-extension:IChats',
  'The chats with Claude: what happens in them, and the way to send a message.'
);

export class Chats implements IChats {
  constructor(
    readonly api: ChatApi,
    private readonly _channel: IChannel,
    private readonly _store: AppStore
  ) {
    _channel.opens.connect(() => void this.refresh());
  }

  get happened(): ISignal<this, IHappened> {
    return this._happened;
  }

  open(id: string | null): ChatModel {
    const known = this._open.find(chat => chat.id === id && id !== null);
    const chat = known ?? this._begin(id);
    this._shown.set(chat, (this._shown.get(chat) ?? 0) + 1);
    return chat;
  }

  close(chat: ChatModel): void {
    const others = (this._shown.get(chat) ?? 0) - 1;
    if (others > 0) {
      this._shown.set(chat, others);
    } else {
      this._shown.delete(chat);
      this._sweep(chat);
    }
  }

  async refresh(): Promise<void> {
    const isNewest = this._lists();
    const [chats, models] = await Promise.all([
      quietly(this.api.chats()),
      quietly(this.api.models())
    ]);
    if ((chats ?? models) !== null && isNewest()) {
      this._store.update(state => ({
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

  async moved(old: string): Promise<void> {
    this._open.forEach(chat => chat.moved(old));
    await this.refresh();
  }

  private _begin(id: string | null): ChatModel {
    const chat = new ChatModel(this.api, this._channel, this._store, `chat ${++this._count}`, id);
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

  private readonly _lists = inOrder();
  private _count = 0;
  private _open: readonly ChatModel[] = [];
  /** How often each chat is open. */
  private readonly _shown = new Map<ChatModel, number>();
  private _happened = new Signal<this, IHappened>(this);
}
