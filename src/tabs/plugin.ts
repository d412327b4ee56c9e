import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import type { Connection } from '../api/connection';
import { IPageConnection } from '../api/plugin';
import { KernelJoiner } from './kernelJoiner';
import { OpenNotebooks } from './openNotebooks';

const tabs: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:tabs',
  description: 'Lets agents read and change notebooks that are open here, with what is not saved.',
  autoStart: true,
  requires: [INotebookTracker, IPageConnection],
  activate: (
    { serviceManager }: JupyterFrontEnd,
    tracker: INotebookTracker,
    connection: Connection
  ) => {
    const { contents, sessions } = serviceManager;
    new OpenNotebooks(tracker, contents, connection);
    new KernelJoiner(tracker, contents, sessions, connection);
  }
};

export default [tabs] as JupyterFrontEndPlugin<unknown>[];
