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

import { chatIcon } from '../common/icon';
import type { IChatOpener } from '../tokens';
import { openPrompt } from './CellPrompt';
import { errorOf } from './cellOutputs';
import { serverPath } from '../common/drives';
import { keysOfCells } from './keys';
import { verify } from './verification';

export type CellTask = 'explain' | 'fix' | 'document' | 'optimise';

/** The tasks, in the order of menus. */
export const CELL_TASKS: readonly CellTask[] = ['explain', 'fix', 'document', 'optimise'];

/** Ids of the commands on cells. */
export const CommandIDs = {
  chat: 'tk-ai:chat-about-notebook',
  prompt: 'tk-ai:edit-cell',
  verify: 'tk-ai:verify-notebook',
  explain: 'tk-ai:explain-cell',
  fix: 'tk-ai:fix-cell',
  document: 'tk-ai:document-cell',
  optimise: 'tk-ai:optimise-cell'
} as const;

const ICONS: Record<CellTask, LabIcon> = {
  explain: infoIcon,
  fix: bugIcon,
  document: textEditorIcon,
  optimise: fastForwardIcon
};

/** Send a task about cells of a notebook to the chat. */
export async function ask(
  opener: IChatOpener,
  task: CellTask,
  panel: NotebookPanel,
  cells: readonly Cell[],
  trans: TranslationBundle
): Promise<void> {
  const [first] = cells;
  const about = { cells: cells.length, error: first === undefined ? null : errorOf(first) };
  await opener.open({
    notebook: panel.context.path,
    message: messageFor(task, about, trans),
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
  const labels: Record<CellTask, string> = {
    explain: trans.__('Explain'),
    fix: trans.__('Fix'),
    document: trans.__('Document'),
    optimise: trans.__('Optimize')
  };
  const captions: Record<CellTask, string> = {
    explain: trans.__('Ask Claude to explain the selected cells'),
    fix: trans.__('Ask Claude to fix the selected cells'),
    document: trans.__('Ask Claude to document the selected cells'),
    optimise: trans.__('Ask Claude to optimize the selected cells')
  };
  const longs: Record<CellTask, string> = {
    explain: trans.__('Explain Cells with Claude'),
    fix: trans.__('Fix Cells with Claude'),
    document: trans.__('Document Cells with Claude'),
    optimise: trans.__('Optimize Cells with Claude')
  };
  const category = trans.__('Claude');
  const describedBy = {
    args: {
      type: 'object',
      properties: {
        isPalette: {
          type: 'boolean',
          description: trans.__('Whether the command is shown in the command palette')
        }
      }
    }
  };
  const { contents, serverSettings: settings } = app.serviceManager;
  /** Return the current notebook, if it is on the server: Claude cannot read others. */
  const current = (): NotebookPanel | null => {
    const panel = notebooks.currentWidget;
    const path = panel && serverPath(contents, panel.context.path);
    return path === null ? null : panel;
  };
  for (const task of CELL_TASKS) {
    const command = CommandIDs[task];
    app.commands.addCommand(command, {
      label: args => (args['isPalette'] === true ? longs[task] : labels[task]),
      caption: captions[task],
      icon: ICONS[task],
      describedBy,
      isEnabled: () => selected(current(), task).length > 0,
      execute: async () => {
        const panel = current();
        const cells = selected(panel, task);
        if (panel !== null && cells.length > 0) {
          await ask(opener, task, panel, cells, trans);
        }
      }
    });
    palette?.addItem({ command, category, args: { isPalette: true } });
  }
  const add = (
    command: string,
    label: string,
    caption: string,
    run: (panel: NotebookPanel) => unknown,
    icon = chatIcon
  ): void => {
    app.commands.addCommand(command, {
      label,
      caption,
      icon,
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => current() !== null,
      execute: async () => {
        const panel = current();
        if (panel !== null) {
          await run(panel);
        }
      }
    });
    palette?.addItem({ command, category });
  };
  add(
    CommandIDs.chat,
    trans.__('Chat About This Notebook'),
    trans.__('Chat with Claude about this notebook'),
    ({ context }) => opener.open({ notebook: context.path })
  );
  add(
    CommandIDs.prompt,
    trans.__('Edit Cell with a Prompt…'),
    trans.__('Describe a change of the active cell, and see it first'),
    async panel => {
      const { activeCell: cell, mode } = panel.content;
      if (cell === null) {
        return;
      }
      await cell.ready;
      const toChat = (message: string): unknown =>
        opener.open({ notebook: panel.context.path, message });
      openPrompt({ panel, cell, mode, settings, toChat, trans });
    }
  );
  add(
    CommandIDs.verify,
    trans.__('Check: Run from the Top'),
    trans.__('Check: run from the top in a new kernel, and compare with the saved outputs'),
    async panel => {
      await verify(panel, contents.localPath(panel.context.path), settings, trans);
    },
    codeCheckIcon
  );
}

/** Return the selected cells that fit a task: all can be explained, others are for code only. */
function selected(panel: NotebookPanel | null, task: CellTask): Cell[] {
  const content = panel?.content;
  const cells = content?.widgets.filter(cell => content.isSelectedOrActive(cell)) ?? [];
  return task === 'explain' ? cells : cells.filter(cell => cell.model.type === 'code');
}

/** Return the message to Claude for a task. */
function messageFor(
  task: CellTask,
  { cells, error }: { cells: number; error: string | null },
  trans: TranslationBundle
): string {
  const many = cells > 1;
  switch (task) {
    case 'explain':
      if (error !== null && !many) {
        return trans.__('Explain the %1 in this cell.', error);
      }
      return many ? trans.__('Explain these cells.') : trans.__('Explain this cell.');
    case 'fix':
      if (error !== null && !many) {
        return trans.__('Fix the %1 in this cell.', error);
      }
      return many ? trans.__('Fix these cells.') : trans.__('Fix this cell.');
    case 'document':
      return many
        ? trans.__('Document these cells: add docstrings, and comments that say why.')
        : trans.__('Document this cell: add docstrings, and comments that say why.');
    case 'optimise':
      return many
        ? trans.__('Optimize these cells: less time or memory, with the same results.')
        : trans.__('Optimize this cell: less time or memory, with the same results.');
  }
}
