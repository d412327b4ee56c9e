import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { PermissionsApi } from '../api/permissions';
import { IQuestions, Questions } from './model';

/** What other agents ask. */
const questions: JupyterFrontEndPlugin<IQuestions> = {
  id: 'tk-ai-extension:questions',
  description: 'What agents over MCP or REST wait for leave to do.',
  autoStart: true,
  provides: IQuestions,
  activate: (app: JupyterFrontEnd): IQuestions => {
    const found = new Questions(new PermissionsApi(app.serviceManager.serverSettings));
    const look = (): void => found.look(!document.hidden);
    // Once it is known whether a panel shows, and who tells of it listens.
    void app.restored.then(() => {
      document.addEventListener('visibilitychange', look);
      look();
    });
    return found;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [questions];

export default plugins;
