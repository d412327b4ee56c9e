import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Token } from '@lumino/coreutils';

import { type AppStore, createStore } from './app';

export const IAppStore = new Token<AppStore>(
  'tk-ai-extension:IAppStore',
  'The state of the page: chats, approvals, and what the panels show.'
);

const store: JupyterFrontEndPlugin<AppStore> = {
  id: 'tk-ai-extension:store',
  description: 'Holds the state of the page.',
  autoStart: true,
  provides: IAppStore,
  activate: (): AppStore => createStore()
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [store];

export default plugins;
