import { Token } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import type { ChatApi, IChatInfo, IModels } from '../api/client';
import type { ChatEvent } from '../api/events';
import { ChatModel } from './model';

/** Something that happened in a chat, for whoever shows it elsewhere than in the panel. */
export interface IHappened {
  chat: ChatModel;
  event: ChatEvent;
}

/** The user's chats. */
export interface IChats {
  /** The routes of the server. */
  readonly api: ChatApi;
  /** The chats, the one used last first. */
  readonly list: readonly IChatInfo[];
  /** What answers; null until the server said so. */
  readonly models: IModels | null;
  /** Emitted when the list or the models are new. */
  readonly changed: ISignal<IChats, void>;
  /** What happens in the chats that are open here. */
  readonly happened: ISignal<IChats, IHappened>;
  /** A chat, by its id; a new one for null. */
  open(id: string | null): ChatModel;
  /** Asks the server for the list and the models again. */
  refresh(): Promise<void>;
  rename(id: string, title: string): Promise<void>;
  remove(id: string): Promise<void>;
}

/** The chats, for plug-ins that show or send something. */
export const IChats = new Token<IChats>(
  'tk-ai-extension:IChats',
  'The chats with Claude: what happens in them, and the way to send a message.'
);

export class Chats implements IChats {
  constructor(readonly api: ChatApi) {}

  get list(): readonly IChatInfo[] {
    return this._list;
  }

  get models(): IModels | null {
    return this._models;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get happened(): ISignal<this, IHappened> {
    return this._happened;
  }

  open(id: string | null): ChatModel {
    const known = this._open.find(chat => chat.id === id && id !== null);
    if (known !== undefined) {
      return known;
    }
    const chat = new ChatModel(this.api, id);
    this._open.push(chat);
    chat.happened.connect((_, event) => {
      this._happened.emit({ chat, event });
      if (event.kind === 'message' || event.kind === 'done') {
        void this.refresh();
      }
    });
    void chat.load();
    return chat;
  }

  async refresh(): Promise<void> {
    const [list, models] = await Promise.allSettled([this.api.chats(), this.api.models()]);
    if (list.status === 'fulfilled') {
      this._list = list.value;
    }
    if (models.status === 'fulfilled') {
      this._models = models.value;
    }
    this._changed.emit();
  }

  async rename(id: string, title: string): Promise<void> {
    await this.api.rename(id, title);
    await this.refresh();
  }

  async remove(id: string): Promise<void> {
    await this.api.remove(id);
    this._open.find(chat => chat.id === id)?.dispose();
    this._open = this._open.filter(chat => chat.id !== id);
    await this.refresh();
  }

  private _list: readonly IChatInfo[] = [];
  private _models: IModels | null = null;
  private _open: ChatModel[] = [];
  private _changed = new Signal<this, void>(this);
  private _happened = new Signal<this, IHappened>(this);
}
