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
import type { PanelController } from './controller';
import type { PanelStorage } from './panelStorage';
import type { NotebookContext } from './notebook';

/** The services of the panel's components. */
export interface IPanelServices {
  store: AppStore;
  chats: IChats;
  commands: CommandRegistry;
  /** The languages for syntax highlighting; null if lines are plain. */
  languages: IEditorLanguageRegistry | null;
  memory: PanelStorage;
  /** Approval requests, apart from those in the transcripts of open chats. */
  questions: IQuestions;
  /** The changes by agents that the person has kept. */
  reviews: IReviews;
  /** Renders what a model wrote, with a sanitizer after which nothing is loaded. */
  rendermime: IRenderMimeRegistry;
  notebook: NotebookContext;
  trans: TranslationBundle;
}

/** The services within a panel. */
export interface IPanelContext extends IPanelServices {
  controller: PanelController;
}

const ServicesContext = createContext<IPanelContext | null>(null);

export const ServicesProvider = ServicesContext.Provider;

/** Return the services of the panel. */
export function useServices(): IPanelContext {
  const services = useContext(ServicesContext);
  if (services === null) {
    throw new Error('The panel is rendered without its services.');
  }
  return services;
}

/**
 * Return a part of the state, and render again when it changes.
 *
 * @param select - Returns a part of the state itself, not a new object.
 */
export function useSelector<T>(select: (state: IAppState) => T): T {
  const { store } = useServices();
  return useSyncExternalStore(store.subscribe, () => select(store.state));
}

/** Return a part of the state of an open chat. */
export function useChat<T>(key: string, select: (chat: IOpenChat) => T): T {
  return useSelector(state => select(openChat(state, key)));
}
