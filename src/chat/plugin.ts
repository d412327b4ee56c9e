import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { ChatApi } from '../api/client';
import { ILines } from '../api/lines';
import { Chats, IChats } from './service';

/** The user's chats. */
const chats: JupyterFrontEndPlugin<IChats> = {
  id: 'tk-ai-extension:chats',
  description: "The user's chats with Claude, kept up with the server.",
  autoStart: true,
  provides: IChats,
  requires: [ILines],
  activate: (app: JupyterFrontEnd, lines: ILines): IChats =>
    new Chats(new ChatApi(app.serviceManager.serverSettings), lines)
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [chats];

export default plugins;
