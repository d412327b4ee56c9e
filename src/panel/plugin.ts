import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, IThemeManager } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';

import { IChats } from '../chat/service';
import { BrowserStorage } from '../common/storage';
import { DEFAULTS, type IPreferences } from '../state/preferences';
import { addCommands, OPEN_IN_MAIN } from './commands';
import type { IPanelServices } from './panelServices';
import { PanelStorage } from './panelStorage';
import { notify } from './notifications';
import { PanelManager } from './panelManager';
import { localRenderers } from './sanitizer';
import { NotebookContext } from './notebook';

/** The services of the panels. */
const PanelServices = new Token<IPanelServices>('tk-ai-extension:PanelServices');

const services: JupyterFrontEndPlugin<IPanelServices> = {
  id: 'tk-ai-extension:panel-services',
  description: 'Provides the services of the panel: notebooks, rendering, state.',
  autoStart: true,
  provides: PanelServices,
  requires: [IChats, IRenderMimeRegistry],
  optional: [
    ITranslator,
    INotebookTracker,
    IDocumentManager,
    IEditorLanguageRegistry,
    IThemeManager
  ],
  activate: (
    app: JupyterFrontEnd,
    chats: IChats,
    rendermime: IRenderMimeRegistry,
    translator: ITranslator | null,
    notebooks: INotebookTracker | null,
    documents: IDocumentManager | null,
    languages: IEditorLanguageRegistry | null,
    themes: IThemeManager | null
  ): IPanelServices => {
    const { store } = chats;
    const language = translator ?? nullTranslator;
    const trans = language.load('tk-ai-extension');
    themes?.themeChanged.connect((_, { newValue }) =>
      store.update(state => ({ ...state, theme: newValue }))
    );
    return {
      store,
      chats,
      commands: app.commands,
      languages,
      rendermime: localRenderers(rendermime, address =>
        trans.__('[image not loaded: %1]', address.slice(0, 200))
      ),
      notebook: new NotebookContext(app, notebooks, documents, trans, store),
      trans
    };
  }
};

const panel: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:panel',
  description: 'The chat with Claude, in the right sidebar and as a tab.',
  autoStart: true,
  requires: [PanelServices],
  optional: [ILayoutRestorer, ISettingRegistry, ICommandPalette, ILauncher, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    services: IPanelServices,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    lab: ILabShell | null
  ): void => {
    const { store } = services;
    const { baseUrl } = app.serviceManager.serverSettings;
    const memory = new PanelStorage(new BrowserStorage(baseUrl), store);
    const manager = new PanelManager(app, services, lab !== null, memory.chat);
    const { side, tabs } = manager;
    app.shell.add(side, 'right', { rank: 900, type: 'Claude' });
    restorer?.add(side, side.id);
    side.controller.shown.connect((_, chat) => {
      memory.chat = chat;
    });
    addCommands(app, services, manager, palette);
    if (restorer !== null) {
      void restorer.restore(tabs, {
        command: OPEN_IN_MAIN,
        args: widget => ({ chat: widget.content.controller.chat.id, name: widget.id }),
        name: widget => widget.id
      });
    }
    notify(services, manager);

    launcher?.add({ command: OPEN_IN_MAIN, args: { isLauncher: true }, rank: 10 });
    if (settings !== null) {
      void settings.load(panel.id).then(loaded => {
        const take = (): void => {
          const chosen = loaded.composite as Partial<IPreferences>;
          const preferences = { ...DEFAULTS, ...chosen };
          store.update(state => ({ ...state, preferences }));
        };
        loaded.changed.connect(take);
        take();
      });
    }
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [services, panel];

export default plugins;
