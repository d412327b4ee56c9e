import type { JupyterFrontEnd } from '@jupyterlab/application';
import { type IInlineCompletionProvider, InlineCompletionTriggerKind } from '@jupyterlab/completer';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { chatIcon } from '../common/icon';
import { untilItSucceeds } from '../common/once';
import { serverPath } from '../common/drives';
import type { GhostText } from './ghostText';

/**
 * Return the provider of ghost text, which is loaded at the first request.
 *
 * While a person types it is asked only if they have switched that on; JupyterLab waits for a pause.
 */
export function inlineProvider(
  { serviceManager: { contents, serverSettings } }: JupyterFrontEnd,
  notebooks: INotebookTracker,
  settings: Promise<ISettingRegistry.ISettings> | undefined,
  trans: TranslationBundle
): IInlineCompletionProvider {
  const ghost = untilItSucceeds(async (): Promise<GhostText> => {
    const { GhostText } = await import(/* webpackChunkName: "notebook" */ './ghostText');
    const pathOf = ({ context }: NotebookPanel): string | null =>
      serverPath(contents, context.path);
    return new GhostText(serverSettings, pathOf, notebooks, trans);
  });
  return {
    identifier: 'tk-ai-extension',
    name: 'Claude',
    icon: chatIcon,
    schema: { default: { debouncerDelay: 300, timeout: 20_000 } },
    fetch: async (request, context) =>
      context.triggerKind === InlineCompletionTriggerKind.Invoke ||
      (await settings)?.composite['completion'] === true
        ? (await ghost()).fetch(request, context)
        : { items: [] }
  };
}
