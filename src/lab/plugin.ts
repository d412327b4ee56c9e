import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

import { type Feature, onSwitchedOff, switchedOff } from './features';
import { runSelfTest } from './selfTest';

/** The self-test, which runs after the start and does not delay it. */
const selfTest: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:self-test',
  description:
    'Switches off features that do not work in this JupyterLab, and shows a notification.',
  autoStart: true,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load('tk-ai-extension');
    const where = trans.__('Claude’s extension in %1 %2:', app.name, app.version);
    const notify = (feature: Feature): void => {
      const message = `${where} ${fallback(feature, trans)}`;
      // oxlint-disable-next-line no-console
      console.warn(`tk-ai-extension: "${feature}" is switched off. ${message}`);
      Notification.warning(message, { autoClose: false });
    };
    void app.restored.then(async () => {
      await runSelfTest(app);
      switchedOff().forEach(notify);
      onSwitchedOff(notify);
    });
  }
};

/** Return what happens instead of a feature, short enough for a notification. */
function fallback(feature: Feature, trans: TranslationBundle): string {
  switch (feature) {
    case 'trust':
      return trans.__('The outputs of a trusted cell are rendered again when an agent runs it.');
    case 'tabs':
      return trans.__('Agents edit notebook files, not open tabs.');
  }
}

const plugins: JupyterFrontEndPlugin<unknown>[] = [selfTest];

export default plugins;
