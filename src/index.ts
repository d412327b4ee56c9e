import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import api from './api/plugin';
import chat from './chat/plugin';
import lab from './lab/plugin';
import notebook from './notebook/plugin';
import panel from './panel/plugin';
import tabs from './tabs/plugin';

// The public API for other extensions.
export { IChats, type IHappened } from './chat/service';
export { IActivities } from './notebook/activities';
export { IChatOpener, type IOpenChatOptions } from './tokens';
export type { NotebookActivity } from './notebook/activity';
export type { ChatModel } from './chat/model';

/** All plug-ins, from the `plugin.ts` of each folder. */
const plugins: JupyterFrontEndPlugin<unknown>[] = [
  ...api,
  ...chat,
  ...panel,
  ...notebook,
  ...tabs,
  ...lab
];

export default plugins;
