import type { INotebookModel } from '@jupyterlab/notebook';
import { Context, type DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents, ServiceManager } from '@jupyterlab/services';

import type { Uses } from '../uses';

const never = new Promise<never>(() => undefined);

/**
 * Check whether a context reads, writes and shows errors by the methods that are replaced.
 *
 * The context is a new one with mocked services: no request is sent.
 */
export async function checkContexts(
  { hasMethods, noteWritten, replaceMethods, report }: Uses,
  services: ServiceManager.IManager,
  factory: DocumentRegistry.IModelFactory<INotebookModel>
): Promise<void> {
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
  report('tabs', called.join() === 'load,load,written,showError');
}

/** Return an object that inherits from another one, with some members overridden. */
function overriding<T extends object>(of: T, members: Partial<T>): T {
  return Object.create(
    of,
    Object.fromEntries(Object.entries(members).map(([name, value]) => [name, { value }]))
  ) as T;
}
