import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { UUID } from '@lumino/coreutils';

import { Line } from './line';
import { Page } from './page';

const tabs: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:tabs',
  description: 'Lets agents read and change notebooks that are open here, with what is not saved.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: ({ serviceManager }: JupyterFrontEnd, tracker: INotebookTracker) => {
    const line = new Line(serviceManager.serverSettings, UUID.uuid4());
    new Page(tracker, serviceManager.contents, line);
  }
};

export default [tabs] as JupyterFrontEndPlugin<unknown>[];
