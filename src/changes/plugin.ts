import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStateDB, StateDB } from '@jupyterlab/statedb';

import { IReviews, Reviews } from './reviews';

/** What a person has kept. */
const reviews: JupyterFrontEndPlugin<IReviews> = {
  id: 'tk-ai-extension:reviews',
  description: 'Remembers what a person has kept of what agents changed.',
  autoStart: true,
  provides: IReviews,
  optional: [IStateDB],
  activate: (_: JupyterFrontEnd, state: IStateDB | null): IReviews =>
    new Reviews(state ?? new StateDB())
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [reviews];

export default plugins;
