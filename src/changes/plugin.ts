import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { BrowserStorage } from '../common/storage';
import type { AppStore } from '../state/app';
import { IAppStore } from '../state/plugin';
import { IReviews, Reviews } from './reviews';

/** The changes that a person has kept. */
const reviews: JupyterFrontEndPlugin<IReviews> = {
  id: 'tk-ai-extension:reviews',
  description: 'Stores which changes by agents a person has kept.',
  autoStart: true,
  provides: IReviews,
  requires: [IAppStore],
  activate: ({ serviceManager }: JupyterFrontEnd, store: AppStore): IReviews =>
    new Reviews(new BrowserStorage(serviceManager.serverSettings.baseUrl), store)
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [reviews];

export default plugins;
