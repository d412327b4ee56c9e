import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';

import { IReviews } from '../changes/reviews';
import { IChats } from '../chat/service';
import { Store } from '../parts/store';
import { IQuestions } from '../questions/model';
import { addCommands, CommandIDs } from './commands';
import type { IDesk } from './desk';
import { Memory } from './memory';
import { notify } from './notices';
import { Places } from './places';
import { Preferences } from './preferences';
import { LocalSanitizer } from './sanitizer';
import { Surroundings } from './surroundings';

/** What the panels have around them, for the plug-ins here. */
const Desk = new Token<IDesk>('tk-ai-extension:Desk');

const desk: JupyterFrontEndPlugin<IDesk> = {
  id: 'tk-ai-extension:desk',
  description: 'What the panel needs of JupyterLab: the notebooks, rendering, state.',
  autoStart: true,
  provides: Desk,
  requires: [IChats, IQuestions, IRenderMimeRegistry, IReviews],
  optional: [ITranslator, INotebookTracker, IDocumentManager],
  activate: (
    app: JupyterFrontEnd,
    chats: IChats,
    questions: IQuestions,
    rendermime: IRenderMimeRegistry,
    reviews: IReviews,
    translator: ITranslator | null,
    notebooks: INotebookTracker | null,
    documents: IDocumentManager | null
  ): IDesk => {
    const trans = (translator ?? nullTranslator).load('tk-ai-extension');
    const { baseUrl } = app.serviceManager.serverSettings;
    const memory = new Memory(new Store(baseUrl), new Store(baseUrl, 'sessionStorage'));
    void chats.refresh();
    const sanitizer = new LocalSanitizer(rendermime.sanitizer, address =>
      trans.__('[picture not loaded: %1]', address.slice(0, 200))
    );
    return {
      chats,
      commands: app.commands,
      memory,
      preferences: new Preferences(),
      questions,
      rendermime: rendermime.clone({ sanitizer }),
      reviews,
      surroundings: new Surroundings(app, notebooks, documents, trans),
      trans
    };
  }
};

const panel: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:panel',
  description: 'The chat with Claude, in the right sidebar and as a tab.',
  autoStart: true,
  requires: [Desk],
  optional: [ILayoutRestorer, ISettingRegistry, ICommandPalette, ILauncher, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    desk: IDesk,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    lab: ILabShell | null
  ): void => {
    const { memory, trans } = desk;
    const places = new Places(app, desk, lab !== null);
    const { side, tabs } = places;
    app.shell.add(side, 'right', { rank: 900, type: 'Claude' });
    restorer?.add(side, side.id);
    void memory.restored.then(() => side.model.restore(memory.chat));
    side.model.shown.connect((_, chat) => {
      memory.chat = chat;
    });
    addCommands(app, desk, places);
    if (restorer !== null) {
      void restorer.restore(tabs, {
        command: CommandIDs.main,
        args: widget => ({ chat: widget.content.model.chat.id, name: widget.id }),
        name: widget => widget.id
      });
    }
    notify(desk, places);

    const category = trans.__('Claude');
    for (const command of Object.values(CommandIDs)) {
      if (command !== CommandIDs.ask) {
        palette?.addItem({ command, category });
      }
    }
    launcher?.add({ command: CommandIDs.main, args: { isLauncher: true }, rank: 10 });
    if (settings !== null) {
      void settings.load(panel.id).then(loaded => desk.preferences.follow(loaded));
    }
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [desk, panel];

export default plugins;
