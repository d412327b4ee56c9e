import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IMarkdownParser, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { uses } from './uses';

/** The self-test, which runs after the start and does not delay it. */
const selfTest: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:self-test',
  description:
    'Switches off features that do not work in this JupyterLab, and shows a notification.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [IMarkdownParser, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    parser: IMarkdownParser | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('tk-ai-extension');
    void app.restored.then(async () => {
      const { runSelfTest } = await import(/* webpackChunkName: "self-test" */ './checks/run');
      await runSelfTest({ app, rendermime, parser, uses, trans });
    });
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [selfTest];

export default plugins;
