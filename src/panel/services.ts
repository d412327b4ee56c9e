import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { createContext, useContext, useSyncExternalStore } from 'react';

import type { IReviews } from '../changes/reviews';
import type { IChats } from '../chat/service';
import type { IQuestions } from '../questions/model';
import type { AppStore, IAppState, IOpenChat } from '../state/app';
import { openChat } from '../state/app';
import type { Memory } from './memory';
import type { NotebookContext } from './notebook';

/** All that the parts of the panel act by. What they show is in the store. */
export interface IPanelServices {
  store: AppStore;
  chats: IChats;
  commands: CommandRegistry;
  /** What colours code; null where nothing does, and lines are plain. */
  languages: IEditorLanguageRegistry | null;
  memory: Memory;
  /** What agents ask that are not the panel's own chats. */
  questions: IQuestions;
  /** What the person has kept of what agents changed. */
  reviews: IReviews;
  /** Renders what a model wrote: sanitized, and loading nothing. */
  rendermime: IRenderMimeRegistry;
  notebook: NotebookContext;
  trans: TranslationBundle;
}

const ServicesContext = createContext<IPanelServices | null>(null);

export const ServicesProvider = ServicesContext.Provider;

/** What the panel acts by. */
export function useServices(): IPanelServices {
  const services = useContext(ServicesContext);
  if (services === null) {
    throw new Error('The panel is rendered without its services.');
  }
  return services;
}

/**
 * A part of the state, rendered again whenever it is another one.
 *
 * @param select - Gives a part of the state itself, not something made of it.
 */
export function useSelector<T>(select: (state: IAppState) => T): T {
  const { store } = useServices();
  return useSyncExternalStore(store.subscribe, () => select(store.state));
}

/** A part of a chat that is open. */
export function useChat<T>(key: string, select: (chat: IOpenChat) => T): T {
  return useSelector(state => select(openChat(state, key)));
}
