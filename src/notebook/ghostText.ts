/** Completions at the cursor, which JupyterLab shows as ghost text. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import {
  type CompletionHandler,
  type IInlineCompletionContext,
  type IInlineCompletionList,
  type IInlineCompletionProvider,
  InlineCompletionTriggerKind
} from '@jupyterlab/completer';
import type { ICellModel } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError, requestJson } from '../api/client';
import type { CompletedCode } from '../api/events';
import { serverPath } from '../common/drives';
import { chatIcon } from '../common/icon';
import { codeContext } from './codeApi';

/** Milliseconds without requests while typing, after an error that may pass. */
export const PAUSE = 30_000;

type Items = IInlineCompletionList;

const NOTHING: Items = { items: [] };

/**
 * Return the provider of ghost text.
 *
 * While a person types it is asked only if they have switched that on; JupyterLab waits for a pause.
 */
export function inlineProvider(
  { serviceManager: { contents, serverSettings } }: JupyterFrontEnd,
  notebooks: INotebookTracker,
  settings: Promise<ISettingRegistry.ISettings> | undefined,
  trans: TranslationBundle
): IInlineCompletionProvider {
  const pathOf = ({ context }: NotebookPanel): string | null => serverPath(contents, context.path);
  const ghost = new GhostText(serverSettings, pathOf, notebooks, trans);
  return {
    identifier: 'tk-ai-extension',
    name: 'Claude',
    icon: chatIcon,
    schema: { default: { debouncerDelay: 300, timeout: 20_000 } },
    fetch: async (request, context) =>
      context.triggerKind === InlineCompletionTriggerKind.Invoke ||
      (await settings)?.composite['completion'] === true
        ? ghost.fetch(request, context)
        : { items: [] }
  };
}

/** Fetches completions. There is at most one request, for the text as it is. */
export class GhostText {
  /** @param _pathOf - Returns the path of a notebook on the server; null if it is elsewhere. */
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _pathOf: (panel: NotebookPanel) => string | null,
    private readonly _notebooks: Pick<INotebookTracker, 'find'>,
    private readonly _trans: TranslationBundle
  ) {}

  /** Return the completion at the cursor; the next key cancels it. */
  async fetch(
    { text, offset }: CompletionHandler.IRequest,
    { widget, triggerKind }: IInlineCompletionContext
  ): Promise<Items> {
    this._asking?.abort();
    const panel = this._notebooks.find(each => each === widget);
    const cell = panel?.content.activeCell;
    const shared = cell?.model.sharedModel;
    if (!panel || !cell || shared?.source !== text) {
      return NOTHING;
    }
    // The offset counts characters, not UTF-16 units.
    const prefix = Array.from(text).slice(0, offset).join('');
    const suffix = text.slice(prefix.length);
    const isAsked = triggerKind === InlineCompletionTriggerKind.Invoke;
    const rest = this._rest(cell.model, prefix, suffix);
    if (!isAsked && (rest !== '' || Date.now() < this._pausedUntil)) {
      return itemsOf(rest);
    }
    const path = this._pathOf(panel);
    if (path === null) {
      return NOTHING;
    }
    const body = { ...codeContext(panel, cell, path), prefix, suffix };
    const asking = (this._asking = new AbortController());
    const onChanged = (_: unknown, { sourceChange }: { sourceChange?: unknown }): void => {
      if (sourceChange !== undefined) {
        asking.abort();
      }
    };
    shared.changed.connect(onChanged);
    try {
      const found = await requestJson<CompletedCode>(
        this._settings,
        'POST',
        'code/completion',
        body,
        asking.signal
      );
      this._pausedUntil = 0;
      this._known = { cell: cell.model, prefix, suffix, text: found.text };
      // JupyterLab would show it at the cursor, wherever that is by now.
      const cursor = cell.editor?.getOffsetAt(cell.editor.getCursorPosition());
      return itemsOf(cursor === undefined || cursor === prefix.length ? found.text : '');
    } catch (error) {
      if (!asking.signal.aborted) {
        this._report(error, isAsked);
      }
      return NOTHING;
    } finally {
      shared.changed.disconnect(onChanged);
    }
  }

  /** Return what is left of the last completion, if the person types the same; empty for nothing. */
  private _rest(cell: ICellModel, prefix: string, suffix: string): string {
    const { _known: known } = this;
    const isSame = known?.cell === cell && known.suffix === suffix;
    return isSame && (known.prefix + known.text).startsWith(prefix)
      ? (known.prefix + known.text).slice(prefix.length)
      : '';
  }

  /** Report an error once while the person types, and each time that they ask. */
  private _report(error: unknown, isAsked: boolean): void {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    const { problem } = error;
    if (isAsked || problem.code !== this._reported) {
      const { message, hint } = problem;
      Notification.warning(this._trans.__('No completion: %1 %2', message, hint), {
        autoClose: 10_000
      });
    }
    this._reported = problem.code;
    this._pausedUntil = error.isPermanent ? Infinity : Date.now() + PAUSE;
  }

  private _asking: AbortController | null = null;
  private _known: { cell: ICellModel; prefix: string; suffix: string; text: string } | null = null;
  private _pausedUntil = 0;
  private _reported = '';
}

function itemsOf(insertText: string): Items {
  return insertText === '' ? NOTHING : { items: [{ insertText }] };
}
