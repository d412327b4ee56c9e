/** The state of a page: all that its panels show. */

import type { ChatInfo, ErrorInfo, Mode, ModelsInfo, PermissionInfo } from '../api/events';
import { EMPTY, type IChatState, type IJournal } from './chat';
import type { Compose, ISeen } from './draft';
import type { IKept } from './kept';
import { DEFAULTS, type IPreferences } from './preferences';
import { Store } from './store';

/** A chat that is open in this page. */
export interface IOpenChat extends IChatState {
  /** Null until its first message was sent. */
  id: string | null;
  /** Whether its past is there. */
  loaded: boolean;
  /** What the server said to the last request that it did not carry out. */
  problem: ErrorInfo | null;
  /** What of its changes stands; null where the server has not said so yet. */
  journal: IJournal | null;
  /** Whether the connection on which it is followed is lost. */
  lost: boolean;
}

/** Something that does not go with a message. */
export interface IRefused {
  name: string;
  why: 'folder' | 'gone' | 'lost' | 'many' | 'no picture' | 'no text' | 'large';
}

/** What one panel shows. */
export interface IPanelState {
  /** The chat's key in `IAppState.open`. */
  chat: string;
  compose: Compose;
  /** What the person chose for the messages to come; null for nothing. */
  mode: Mode | null;
  model: string | null;
  /** What was last to go with the message and does not. */
  refused: readonly IRefused[];
  showsHistory: boolean;
  /** Whether the person opened the chat that is shown: they write on in it. */
  opened: boolean;
  /** Rises when another chat is shown. */
  generation: number;
}

export interface IAppState {
  /** The user's chats, the one used last first. */
  chats: readonly ChatInfo[];
  /** What answers; null until the server said so. */
  models: ModelsInfo | null;
  /** By keys of this page: a new chat has no id. */
  open: Readonly<Record<string, IOpenChat>>;
  /** What agents that are not the panel's chats need an approval for, the oldest first. */
  requests: readonly PermissionInfo[];
  /** What the person has kept of notebooks, by their paths. */
  kept: Readonly<Record<string, IKept>>;
  preferences: IPreferences;
  /** What the person looks at; null where no notebook is open. */
  seen: ISeen | null;
  panels: Readonly<Record<string, IPanelState>>;
  /** JupyterLab's theme, once it is another one than at the start. */
  theme: string;
}

/** The store of a page. */
export type AppStore = Store<IAppState>;

export const NEW_CHAT: IOpenChat = {
  ...EMPTY,
  id: null,
  loaded: true,
  problem: null,
  journal: null,
  lost: false
};

/** A store in which nothing is known yet. */
export function createStore(some: Partial<IAppState> = {}): AppStore {
  return new Store<IAppState>({
    chats: [],
    models: null,
    open: {},
    requests: [],
    kept: {},
    preferences: DEFAULTS,
    seen: null,
    panels: {},
    theme: '',
    ...some
  });
}

/** A chat that is open; an empty one where it is open no more. */
export function openChat({ open }: IAppState, key: string): IOpenChat {
  return open[key] ?? NEW_CHAT;
}

/** The mode of a panel's next message: that of the last one, where the person chose no other. */
export function modeOf(state: IAppState, { mode, chat }: IPanelState): Mode {
  return mode ?? openChat(state, chat).turns.at(-1)?.mode ?? state.preferences.mode;
}

/** The model that answers a panel's next message; empty for the server's usual one. */
export function modelOf({ models, preferences }: IAppState, { model }: IPanelState): string {
  const name = model ?? preferences.model;
  return models?.models.includes(name) === true ? name : '';
}

/** A record without one of its keys. */
export function without<T>(record: Readonly<Record<string, T>>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([each]) => each !== key));
}
