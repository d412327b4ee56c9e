import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IChannel } from '../api/channel';
import { IChats } from '../chat/service';
import { IChatOpener } from '../tokens';
import { Activities, IActivities } from './activities';
import { addCommands, ask } from './commands';
import { serverPath } from '../common/drives';
import { addErrorButtons } from './errorButtons';
import { markCells, showRunning } from './decorations';
import { ChatOpener } from './chatOpener';
import { inlineProvider } from './ghostText';
import { addFollow } from './follow';
import { ReviewItem, RunningItem } from './toolbar';
import { followDistrust } from './trust';

const FACTORY = 'Notebook';

/** The activity of agents in notebooks, for plug-ins that show it. */
const activities: JupyterFrontEndPlugin<IActivities> = {
  id: 'tk-ai-extension:activities',
  description: 'Provides the changes and runs of agents in open notebooks.',
  autoStart: true,
  provides: IActivities,
  requires: [IChats, IChannel],
  activate: (
    { serviceManager: { contents } }: JupyterFrontEnd,
    chats: IChats,
    channel: IChannel
  ): IActivities => new Activities(chats, channel, contents)
};

/** Trust in the outputs of cells that agents run. */
const trust: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:trust',
  description: 'Withdraws the trust from outputs that an agent replaces.',
  autoStart: true,
  activate: ({ docRegistry }: JupyterFrontEnd): void => {
    // Called for each notebook before its cells are rendered.
    const createNew = (panel: NotebookPanel): void => followDistrust(panel);
    docRegistry.addWidgetExtension(FACTORY, { createNew });
  }
};

/** Marks of cells that agents changed or run. */
const marks: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:marks',
  description:
    'Marks the cells that agents changed, to keep or undo that, and those that they run.',
  autoStart: true,
  requires: [IActivities, INotebookTracker],
  optional: [ITranslator, IToolbarWidgetRegistry],
  activate: (
    _: JupyterFrontEnd,
    found: IActivities,
    notebooks: INotebookTracker,
    translator: ITranslator | null,
    toolbar: IToolbarWidgetRegistry | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('tk-ai-extension');
    toolbar?.addFactory<NotebookPanel>(
      FACTORY,
      'tk-ai-review',
      panel => new ReviewItem(panel, found.of(panel), trans)
    );
    toolbar?.addFactory<NotebookPanel>(
      FACTORY,
      'tk-ai-running',
      panel => new RunningItem(panel, found.of(panel), trans)
    );
    eachNotebook(notebooks, panel => {
      markCells(panel, found.of(panel), trans);
      showRunning(panel, found.of(panel));
    });
  }
};

/** Opens the chat from a notebook. */
const opener: JupyterFrontEndPlugin<IChatOpener> = {
  id: 'tk-ai-extension:opener',
  description: 'Opens the chat about a notebook and its cells.',
  autoStart: true,
  provides: IChatOpener,
  requires: [INotebookTracker],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker): IChatOpener =>
    new ChatOpener(app, notebooks)
};

/** Tasks on cells, in menus, in the toolbar and below errors. */
const notebook: JupyterFrontEndPlugin<void> = {
  id: 'tk-ai-extension:notebook',
  description: 'Asks Claude about cells: in menus, in the toolbar, below an error, at the cursor.',
  autoStart: true,
  requires: [IChatOpener, INotebookTracker, IActivities],
  optional: [ITranslator, ICommandPalette, ICompletionProviderManager, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    chat: IChatOpener,
    notebooks: INotebookTracker,
    found: IActivities,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    completions: ICompletionProviderManager | null,
    registry: ISettingRegistry | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('tk-ai-extension');
    addCommands(app, notebooks, chat, palette, trans);
    const settings = registry?.load(notebook.id);
    addFollow(app, notebooks, found, palette, trans);
    completions?.registerInlineProvider(inlineProvider(app, notebooks, settings, trans));
    const { contents } = app.serviceManager;
    eachNotebook(notebooks, panel => {
      if (serverPath(contents, panel.context.path) !== null) {
        addErrorButtons(panel, (task, of, cell) => void ask(chat, task, of, [cell], trans), trans);
      }
    });
  }
};

function eachNotebook(notebooks: INotebookTracker, done: (panel: NotebookPanel) => void): void {
  notebooks.forEach(done);
  notebooks.widgetAdded.connect((_, panel) => done(panel));
}

const plugins: JupyterFrontEndPlugin<unknown>[] = [activities, trust, marks, opener, notebook];

export default plugins;
