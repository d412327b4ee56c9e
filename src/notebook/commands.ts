import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  bugIcon,
  codeCheckIcon,
  infoIcon,
  type LabIcon,
  textEditorIcon,
  fastForwardIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';

import { chatIcon } from '../common/icon';
import type { IChatOpener } from '../tokens';
import { openPrompt } from './CellPrompt';
import { errorOf } from './cellOutputs';
import { serverPath } from '../common/drives';
import { keysOfCells } from './keys';
import { verify } from './verification';

export type CellTask = 'explain' | 'fix' | 'document' | 'optimize';

/** A command on cells, and the message that it sends. */
interface ITask {
  label: string;
  /** The label in the command palette. */
  long: string;
  caption: string;
  icon: LabIcon;
  one: string;
  many: string;
  /** The message about one cell with an error of this name. */
  ofError?: (name: string) => string;
}

/** Return the tasks, in the order of menus. */
function tasksOf(trans: TranslationBundle): Record<CellTask, ITask> {
  return {
    explain: {
      label: trans.__('Explain'),
      long: trans.__('Explain Cells with Claude'),
      caption: trans.__('Ask Claude to explain the selected cells'),
      icon: infoIcon,
      one: trans.__('Explain this cell.'),
      many: trans.__('Explain these cells.'),
      ofError: name => trans.__('Explain the %1 in this cell.', name)
    },
    fix: {
      label: trans.__('Fix'),
      long: trans.__('Fix Cells with Claude'),
      caption: trans.__('Ask Claude to fix the selected cells'),
      icon: bugIcon,
      one: trans.__('Fix this cell.'),
      many: trans.__('Fix these cells.'),
      ofError: name => trans.__('Fix the %1 in this cell.', name)
    },
    document: {
      label: trans.__('Document'),
      long: trans.__('Document Cells with Claude'),
      caption: trans.__('Ask Claude to document the selected cells'),
      icon: textEditorIcon,
      one: trans.__('Document this cell: add docstrings, and comments that say why.'),
      many: trans.__('Document these cells: add docstrings, and comments that say why.')
    },
    optimize: {
      label: trans.__('Optimize'),
      long: trans.__('Optimize Cells with Claude'),
      caption: trans.__('Ask Claude to optimize the selected cells'),
      icon: fastForwardIcon,
      one: trans.__('Optimize this cell: less time or memory, with the same results.'),
      many: trans.__('Optimize these cells: less time or memory, with the same results.')
    }
  };
}

/** Send a task about cells of a notebook to the chat. */
export async function ask(
  opener: IChatOpener,
  task: CellTask,
  panel: NotebookPanel,
  cells: readonly Cell[],
  trans: TranslationBundle
): Promise<void> {
  const { one, many, ofError } = tasksOf(trans)[task];
  const error = cells[0] === undefined ? null : errorOf(cells[0]);
  const about = error === null ? one : (ofError?.(error) ?? one);
  await opener.open({
    notebook: panel.context.path,
    message: cells.length > 1 ? many : about,
    cells: keysOfCells(panel, cells),
    send: true
  });
}

/** Add the commands on the active or selected cells. */
export function addCommands(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker,
  opener: IChatOpener,
  palette: ICommandPalette | null,
  trans: TranslationBundle
): void {
  const { contents, serverSettings: settings } = app.serviceManager;
  /** Return the current notebook, if it is on the server: Claude cannot read others. */
  const current = (): NotebookPanel | null => {
    const panel = notebooks.currentWidget;
    const path = panel && serverPath(contents, panel.context.path);
    return path === null ? null : panel;
  };
  const add = (
    command: string,
    options: Pick<CommandRegistry.ICommandOptions, 'caption' | 'icon' | 'isEnabled' | 'label'>,
    run: (panel: NotebookPanel) => unknown
  ): void => {
    app.commands.addCommand(command, {
      describedBy: { args: { type: 'object', properties: { isPalette: { type: 'boolean' } } } },
      isEnabled: () => current() !== null,
      execute: async () => {
        const panel = current();
        if (panel !== null) {
          await run(panel);
        }
      },
      ...options
    });
    palette?.addItem({ command, category: trans.__('Claude'), args: { isPalette: true } });
  };
  for (const [name, { label, long, caption, icon }] of Object.entries(tasksOf(trans))) {
    const task = name as CellTask;
    add(
      `tk-ai:${task}-cell`,
      {
        label: ({ isPalette }) => (isPalette === true ? long : label),
        caption,
        icon,
        isEnabled: () => selected(current(), task).length > 0
      },
      async panel => {
        const cells = selected(panel, task);
        if (cells.length > 0) {
          await ask(opener, task, panel, cells, trans);
        }
      }
    );
  }
  add(
    'tk-ai:chat-about-notebook',
    {
      label: trans.__('Chat About This Notebook'),
      caption: trans.__('Chat with Claude about this notebook'),
      icon: chatIcon
    },
    ({ context }) => opener.open({ notebook: context.path })
  );
  add(
    'tk-ai:edit-cell',
    {
      label: trans.__('Edit Cell with a Prompt…'),
      caption: trans.__('Describe a change to the active cell, and see it first'),
      icon: chatIcon
    },
    async panel => {
      const { activeCell: cell, mode } = panel.content;
      if (cell === null) {
        return;
      }
      await cell.ready;
      openPrompt({ panel, cell, mode, settings, trans });
    }
  );
  add(
    'tk-ai:verify-notebook',
    {
      label: trans.__('Check: Run from the Top'),
      caption: trans.__(
        'Check: run from the top in a new kernel, and compare with the saved outputs'
      ),
      icon: codeCheckIcon
    },
    panel => verify(panel, contents.localPath(panel.context.path), settings, trans)
  );
}

/** Return the selected cells that fit a task: all can be explained, others are for code only. */
function selected(panel: NotebookPanel | null, task: CellTask): Cell[] {
  const content = panel?.content;
  const cells = content?.widgets.filter(cell => content.isSelectedOrActive(cell)) ?? [];
  return task === 'explain' ? cells : cells.filter(cell => cell.model.type === 'code');
}
