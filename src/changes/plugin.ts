import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { Store } from '../parts/store';
import { IReviews, Reviews } from './reviews';

/** What a person has kept. */
const reviews: JupyterFrontEndPlugin<IReviews> = {
  id: 'tk-ai-extension:reviews',
  description: 'Remembers what a person has kept of what agents changed.',
  autoStart: true,
  provides: IReviews,
  activate: ({ serviceManager }: JupyterFrontEnd): IReviews =>
    new Reviews(new Store(serviceManager.serverSettings.baseUrl))
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [reviews];

export default plugins;
