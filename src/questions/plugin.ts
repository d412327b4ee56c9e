import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { ILines } from '../api/lines';
import { PermissionsApi } from '../api/permissions';
import { listening, sharing } from './listening';
import { IQuestions, Questions } from './model';

/** What other agents ask. */
const questions: JupyterFrontEndPlugin<IQuestions> = {
  id: 'tk-ai-extension:questions',
  description: 'What agents over MCP or REST need an approval for.',
  autoStart: true,
  provides: IQuestions,
  requires: [ILines],
  activate: (app: JupyterFrontEnd, lines: ILines): IQuestions => {
    const { serverSettings, user } = app.serviceManager;
    const routes = new PermissionsApi(serverSettings);
    // Two users of one server may be logged in by turns: their pages do not hear of each other.
    const name = (): string =>
      `tk-ai:permissions ${serverSettings.baseUrl} ${user.identity?.username ?? ''}`;
    const found = new Questions(
      (take, signal) => sharing(listening(routes, lines), name())(take, signal),
      routes
    );
    const look = (): void => found.look(!document.hidden);
    // Once it is known whether a panel shows, and who tells of it listens.
    void Promise.all([app.restored, user.ready]).then(() => {
      document.addEventListener('visibilitychange', look);
      look();
    });
    return found;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [questions];

export default plugins;
