import { createContext, useContext, useSyncExternalStore } from 'react';

import { type IAppState, type IOpenChat, openChat } from '../state/app';
import type { PanelController } from './controller';
import type { IPanelServices } from './panelServices';

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
