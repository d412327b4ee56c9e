import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { IChannel } from '../api/channel';
import { ChatApi } from '../api/client';
import type { AppStore } from '../state/app';
import { IAppStore } from '../state/plugin';
import { IQuestions, Questions } from './model';

/** Approval requests of other agents. */
const questions: JupyterFrontEndPlugin<IQuestions> = {
  id: 'tk-ai-extension:questions',
  description: 'What agents over MCP or REST need an approval for.',
  autoStart: true,
  provides: IQuestions,
  requires: [IChannel, IAppStore],
  activate: (app: JupyterFrontEnd, channel: IChannel, store: AppStore): IQuestions => {
    const found = new Questions(channel, new ChatApi(app.serviceManager.serverSettings), store);
    // After the start, when panels are restored and notifications are connected.
    void app.restored.then(() => found.follow());
    return found;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [questions];

export default plugins;
