import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { IChats } from '../chat/service';
import type { AppStore } from '../state/app';
import type { NotebookContext } from './notebook';

/** The services of the panel's components. */
export interface IPanelServices {
  store: AppStore;
  chats: IChats;
  commands: CommandRegistry;
  /** The languages for syntax highlighting; null if lines are plain. */
  languages: IEditorLanguageRegistry | null;
  /** Renders what a model wrote, with a sanitizer after which nothing is loaded. */
  rendermime: IRenderMimeRegistry;
  notebook: NotebookContext;
  trans: TranslationBundle;
}
