import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { ILines, Lines } from './lines';

/** The page's lines to the server. */
const lines: JupyterFrontEndPlugin<ILines> = {
  id: 'tk-ai-extension:lines',
  description: 'Deals out the few lines to the server on which a page hears what happens.',
  autoStart: true,
  provides: ILines,
  activate: (): ILines => new Lines()
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [lines];

export default plugins;
