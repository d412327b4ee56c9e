/** The self-test of JupyterLab internals, which runs after JupyterLab has started. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICodeCellModel } from '@jupyterlab/cells';
import { Context, type DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents, ServiceManager } from '@jupyterlab/services';

import { hasMethods, noteWritten, replaceMethods } from './context';
import { type Feature, report, switchedOff } from './features';
import { withdrawTrust } from './internals';

/** Maximum milliseconds of a check, most of which JupyterLab needs to load modules. */
const LONGEST = 20_000;

type Factory = DocumentRegistry.IModelFactory<INotebookModel>;

/** Run all checks. One that throws or times out has failed. */
export async function runSelfTest(
  app: Pick<JupyterFrontEnd, 'docRegistry' | 'name' | 'serviceManager' | 'version'>
): Promise<void> {
  const factory = app.docRegistry.getModelFactory('notebook') as Factory | undefined;
  const attempt = async (feature: Feature, check: () => Promise<boolean>): Promise<void> => {
    try {
      report(feature, await Promise.race([check(), late()]));
    } catch (error) {
      // oxlint-disable-next-line no-console
      console.warn('tk-ai-extension: a check of the self-test failed.', error);
      report(feature, false);
    }
  };
  const began = performance.now();
  if (factory !== undefined) {
    await attempt('trust', () => Promise.resolve(canWithdrawTrust(factory.createNew())));
    await attempt('tabs', () => replacesMethods(app.serviceManager, factory));
  }
  const { duration } = performance.measure('tk-ai-extension:self-test', { start: began });
  // oxlint-disable-next-line no-console
  console.debug(
    `tk-ai-extension: self-test in ${app.name} ${app.version}: ${Math.round(duration)} ms, ` +
      `${switchedOff().length} features switched off`
  );
}

const late = (): Promise<never> =>
  new Promise((_, reject) => setTimeout(() => reject(new Error('It takes too long.')), LONGEST));

const OUTPUT = { output_type: 'stream', name: 'stdout', text: 'x' };

/** Return whether new outputs of a trusted cell are untrusted, and present ones stay, once its trust is withdrawn. */
function canWithdrawTrust(model: INotebookModel): boolean {
  try {
    model.sharedModel.insertCell(0, { cell_type: 'code', source: '', outputs: [OUTPUT] });
    const cell = model.cells.get(0) as ICodeCellModel;
    cell.trusted = true;
    const output = cell.outputs.get(0);
    const emitted: string[] = [];
    cell.stateChanged.connect((_, { name }) => emitted.push(String(name)));
    report('trust', true);
    withdrawTrust(cell);
    const isSame = cell.outputs.get(0) === output;
    const shared = cell.sharedModel;
    shared.updateOutputs(1, 1, [{ ...OUTPUT, name: 'stderr' }]);
    const added = cell.outputs.get(1);
    shared.setOutputs([OUTPUT]);
    const isUntrusted = ![cell, added, cell.outputs.get(0)].some(each => each.trusted);
    return output.trusted && emitted.includes('trusted') && isSame && isUntrusted;
  } finally {
    model.dispose();
  }
}

const never = new Promise<never>(() => undefined);

/**
 * Return whether a context reads, writes and shows errors by the methods that are replaced.
 *
 * The context is a new one with mocked services: no request is sent.
 */
async function replacesMethods(
  services: ServiceManager.IManager,
  factory: Factory
): Promise<boolean> {
  const path = 'tk-ai-extension-self-test.ipynb';
  const content = { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 };
  const file = { path, name: path, type: 'notebook', format: 'json', writable: false, content };
  const contents = overriding(services.contents, {
    get: () => Promise.resolve(file as unknown as Contents.IModel),
    save: () => Promise.reject(new Error('The self-test writes nothing.')),
    getSharedModelFactory: () => null
  });
  // Without sessions, no kernel is looked for.
  const sessions = overriding(services.sessions, { ready: never });
  const manager = overriding(services, { contents, sessions, ready: Promise.resolve() });
  const context = new Context({ manager, factory, path });
  const called: string[] = [];
  try {
    if (hasMethods(context)) {
      const own = replaceMethods(context, methods => ({
        ...methods,
        load: () => called.push('load'),
        showError: () => Promise.resolve(void called.push('showError'))
      }));
      await context.initialize(false);
      await own.revert();
      const release = noteWritten(context.model, () => called.push('written'));
      await own.save().catch(() => undefined);
      release();
    }
  } finally {
    context.dispose();
  }
  return called.join() === 'load,load,written,showError';
}

/** Return an object that inherits from another one, with some members overridden. */
function overriding<T extends object>(of: T, members: Partial<T>): T {
  return Object.create(
    of,
    Object.fromEntries(Object.entries(members).map(([name, value]) => [name, { value }]))
  ) as T;
}
