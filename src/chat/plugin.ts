import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { ChatApi } from '../api/client';
import { IChannel } from '../api/channel';
import type { AppStore } from '../state/app';
import { IAppStore } from '../state/plugin';
import { Chats, IChats } from './service';

/** The user's chats. */
const chats: JupyterFrontEndPlugin<IChats> = {
  id: 'tk-ai-extension:chats',
  description: "The user's chats with Claude, in sync with the server.",
  autoStart: true,
  provides: IChats,
  requires: [IChannel, IAppStore],
  activate: (app: JupyterFrontEnd, channel: IChannel, store: AppStore): IChats =>
    new Chats(new ChatApi(app.serviceManager.serverSettings), channel, store)
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [chats];

export default plugins;
