/** The self-test of JupyterLab internals, in a chunk that is loaded after JupyterLab has started. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, NotebookWidgetFactory } from '@jupyterlab/notebook';
import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { Feature } from '../features';
import type { Uses } from '../uses';
import { checkCells } from './cells';
import { checkContexts } from './contexts';
import { checkDiagrams } from './diagrams';
import { checkHtml } from './html';
import { sentence } from './sentences';
import { checkTrust } from './trust';

/** Maximum milliseconds of a check, most of which JupyterLab needs to load modules. */
const LONGEST = 20_000;

/** What the checks need. */
export interface ITested {
  readonly app: Pick<JupyterFrontEnd, 'docRegistry' | 'name' | 'serviceManager' | 'version'>;
  readonly rendermime: IRenderMimeRegistry;
  readonly parser: IRenderMime.IMarkdownParser | null;
  readonly uses: Uses;
  readonly trans: TranslationBundle;
}

/** Run all checks, and notify the person of each feature that is switched off, now or later. */
export async function runSelfTest(tested: ITested): Promise<void> {
  const { app, rendermime, parser, uses } = tested;
  const { report, switchedOff, works } = uses;
  const registry = app.docRegistry;
  const factory = registry.getModelFactory('notebook') as
    DocumentRegistry.IModelFactory<INotebookModel> | undefined;
  const widgets = registry.getWidgetFactory('Notebook') as NotebookWidgetFactory | undefined;
  // A check that throws or times out has failed.
  const attempt = async (features: Feature[], check: () => unknown): Promise<void> => {
    try {
      await Promise.race([check(), late()]);
    } catch (error) {
      // eslint-disable-next-line no-console
      console.warn('tk-ai-extension: a check of the self-test failed.', error);
      features.forEach(feature => report(feature, false));
    }
  };
  const began = performance.now();
  if (factory !== undefined) {
    await attempt(['trust', 'quiet-trust'], () => checkTrust(uses, () => factory.createNew()));
    await attempt(['tabs'], () => checkContexts(uses, app.serviceManager, factory));
    if (widgets !== undefined) {
      await attempt(['prompts', 'controls', 'looks'], () =>
        checkCells(uses, factory.createNew(), widgets.contentFactory, rendermime)
      );
    }
  }
  // If their plug-in is disabled, nothing was replaced.
  if (works('images') === true) {
    await attempt(['images'], () => checkHtml(uses, rendermime));
  }
  if (works('diagrams') === true) {
    await attempt(['diagrams'], () => checkDiagrams(uses, rendermime, parser));
  }
  if (app.name === 'JupyterLab') {
    report('width', document.getElementById(uses.RIGHT_SIDEBAR) !== null);
  }
  const { duration } = performance.measure('tk-ai-extension:self-test', { start: began });
  // eslint-disable-next-line no-console
  console.debug(
    `tk-ai-extension: self-test in ${app.name} ${app.version}: ${Math.round(duration)} ms, ` +
      `${switchedOff().length} features switched off`
  );
  switchedOff().forEach(feature => notify(tested, feature));
  uses.onSwitchedOff(feature => notify(tested, feature));
}

const late = (): Promise<never> =>
  new Promise((_, reject) => setTimeout(() => reject(new Error('It takes too long.')), LONGEST));

/** Notify the person of the fallback, in a message that is short enough for JupyterLab. */
function notify({ app, trans }: ITested, feature: Feature): void {
  const where = trans.__('Claude’s extension in %1 %2:', app.name, app.version);
  const message = `${where} ${sentence(feature, trans)}`;
  // eslint-disable-next-line no-console
  console.warn(`tk-ai-extension: "${feature}" is switched off. ${message}`);
  Notification.warning(message, { autoClose: false });
}
