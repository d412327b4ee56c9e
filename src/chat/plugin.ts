import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { ChatApi } from '../api/client';
import { Chats, IChats } from './service';

/** The user's chats. */
const chats: JupyterFrontEndPlugin<IChats> = {
  id: 'tk-ai-extension:chats',
  description: "The user's chats with Claude, kept up with the server.",
  autoStart: true,
  provides: IChats,
  activate: (app: JupyterFrontEnd): IChats =>
    new Chats(new ChatApi(app.serviceManager.serverSettings))
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [chats];

export default plugins;
