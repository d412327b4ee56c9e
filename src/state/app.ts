/** The state of a page, from which its panels are rendered. */

import type { ChatInfo, ErrorInfo, Mode, ModelsInfo, PermissionInfo } from '../api/events';
import { EMPTY, type IChatState, isBusy } from './chat';
import { BLANK, type IDraft, type IRefused, type ISeen, joined } from './compose';
import { DEFAULTS, type IPreferences } from './preferences';
import { agentOf } from './reduce';
import { Store } from './store';

/** A chat that is open in this page. */
export interface IOpenChat extends IChatState {
  /** Null until its first message was sent. */
  id: string | null;
  /** Whether its past events are loaded. */
  loaded: boolean;
  /** The error of the last request. */
  problem: ErrorInfo | null;
  /** Incremented when changes may have been kept or undone, so that they are read again. */
  decided: number;
  /** Whether the connection is lost. */
  lost: boolean;
  /** The last turn that this page has sent, of which no event may have arrived; null for none. */
  expected: string | null;
}

/** The state of a panel. */
export interface IPanelState {
  /** The chat's key in `IAppState.open`. */
  chat: string;
  /** The draft's name in `IAppState.drafts`: the id of its chat, or the panel's key for a new chat. */
  draft: string;
  /** The person's choice for the next messages; null for the default. */
  mode: Mode | null;
  model: string | null;
  /** Values of the agent's settings that the person has chosen, by id. */
  options: Readonly<Record<string, string>>;
  /** What could not be attached in the last attempt. */
  refused: readonly IRefused[];
  showsHistory: boolean;
  /** Whether the person opened the chat, so that its message box gets the focus. */
  opened: boolean;
  /** Incremented when another chat is shown. */
  generation: number;
}

export interface IAppState {
  /** The user's chats, from the one used last. */
  chats: readonly ChatInfo[];
  /** The models of the server; null until they are loaded. */
  models: ModelsInfo | null;
  /** The open chats by keys of this page, since a new chat has no id. */
  open: Readonly<Record<string, IOpenChat>>;
  /** All pending requests, also those that an open chat shows, from the oldest. */
  requests: readonly PermissionInfo[];
  preferences: IPreferences;
  /** The current notebook and cells; null if no notebook is open. */
  seen: ISeen | null;
  panels: Readonly<Record<string, IPanelState>>;
  /** What is being written, by name. */
  drafts: Readonly<Record<string, IDraft>>;
  /** JupyterLab's theme; empty until it changes. */
  theme: string;
}

/** The store of a page. */
export type AppStore = Store<IAppState>;

export const NEW_CHAT: IOpenChat = {
  ...EMPTY,
  id: null,
  loaded: true,
  problem: null,
  decided: 0,
  lost: false,
  expected: null
};

/** Create a store with an empty state. */
export function createStore(some: Partial<IAppState> = {}): AppStore {
  return new Store<IAppState>({
    chats: [],
    models: null,
    open: {},
    requests: [],
    preferences: DEFAULTS,
    seen: null,
    panels: {},
    drafts: {},
    theme: '',
    ...some
  });
}

/** Return the state of an open chat; an empty one if it is closed. */
export function openChat({ open }: IAppState, key: string): IOpenChat {
  return open[key] ?? NEW_CHAT;
}

/** Return whether a turn runs or is queued, or no event of a sent turn has arrived. */
export function isActive({ turns, expected }: IOpenChat): boolean {
  return isBusy({ turns }) || (expected !== null && turns.every(({ id }) => id !== expected));
}

/** Return the mode of a panel's next message. Default: that of the last one. */
export function modeOf(state: IAppState, { mode, chat }: IPanelState): Mode {
  return mode ?? openChat(state, chat).turns.at(-1)?.mode ?? state.preferences.mode;
}

/** Return the model of a panel's next message; empty for the server's default. */
export function modelOf({ models, preferences }: IAppState, { model }: IPanelState): string {
  const name = model ?? preferences.model;
  // Before they are loaded, the server checks it.
  return (models?.models ?? [name]).includes(name) ? name : '';
}

/** Return what the agent of a panel's next message offers in its chat; null for nothing. */
export function offerOf(state: IAppState, panel: IPanelState): IChatState['offer'] {
  const { offer } = openChat(state, panel.chat);
  const model = modelOf(state, panel) || (state.models?.model ?? '');
  return offer?.agent === agentOf(model) ? offer : null;
}

/** Return what is being written in a panel. */
export function draftOf({ drafts }: IAppState, { draft }: Pick<IPanelState, 'draft'>): IDraft {
  return drafts[draft] ?? BLANK;
}

/** Return the state with another draft of this name. */
export function withDraft(state: IAppState, name: string, draft: IDraft): IAppState {
  const drafts = draft === BLANK ? without(state.drafts, name) : { ...state.drafts, [name]: draft };
  return { ...state, drafts };
}

/** Return the state with a draft moved behind another one. */
export function withMovedDraft(state: IAppState, from: string, to: string): IAppState {
  const left = state.drafts[from] ?? null;
  return from === to || left === null
    ? state
    : withDraft(withDraft(state, from, BLANK), to, joined(state.drafts[to] ?? BLANK, left));
}

/** Return a record without a key. */
export function without<T>(record: Readonly<Record<string, T>>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([each]) => each !== key));
}
