import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';

import type { IChatOpener, IOpenChatOptions } from '../tokens';
import { serverPath } from '../common/drives';
import { cellsOf, keysFor } from './keys';

const ASK = 'tk-ai:ask';
const SHOW = 'tk-ai:show-panel';

/** Opens the chat by the commands of the panel. */
export class ChatOpener implements IChatOpener {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _notebooks: INotebookTracker
  ) {}

  async open({ notebook, message, cells, send }: IOpenChatOptions): Promise<void> {
    const { commands } = this._app;
    const path = serverPath(this._app.serviceManager.contents, notebook);
    if (send !== true && path !== null) {
      // A message that is sent immediately has its cells and needs no focus.
      this._lookAt(path, cells ?? []);
    }
    if (message === undefined || message === '') {
      await commands.execute(SHOW);
    } else {
      await commands.execute(ASK, {
        message,
        send: send ?? false,
        ...(path === null ? {} : { notebook: path, cells: [...(cells ?? [])] })
      });
    }
  }

  private _lookAt(notebook: string, wanted: readonly string[]): void {
    const panel = this._notebooks.find(
      each => serverPath(this._app.serviceManager.contents, each.context.path) === notebook
    );
    if (panel === undefined) {
      return;
    }
    if (panel !== this._notebooks.currentWidget) {
      this._app.shell.activateById(panel.id);
    }
    const { content } = panel;
    const cells = keysFor(panel, wanted).map(cellsOf(panel));
    const first = cells[0] === undefined ? -1 : content.widgets.indexOf(cells[0]);
    if (first < 0 || cells.includes(content.widgets[content.activeCellIndex])) {
      return;
    }
    content.deselectAll();
    content.activeCellIndex = first;
  }
}
