import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import {
  type INotebookTracker,
  type Notebook,
  NotebookActions,
  type NotebookPanel
} from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { cellOf, goTo } from '../notebook/cells';
import { serverPath } from '../notebook/drives';
import { cellName } from '../parts/position';
import type { AppStore } from '../state/app';
import type { IAbout, IAttached, ICellName, ISeen } from '../state/draft';
import { tableOf } from './tables';

/** What there is to begin with in the notebook that the person looks at. */
export interface IBeginnings {
  /** A cell whose outputs end with an error, the active one first; null where all is well. */
  failed: ICellName | null;
  /** What the notebook calls a table that it reads or makes; null where there is none. */
  table: string | null;
}

/** A notebook that is open, and its path as the server knows it. */
interface IOpen {
  panel: NotebookPanel;
  path: string;
}

/** The notebook beside the panel: what the person looks at, and what the panel does in it. */
export class NotebookContext {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _notebooks: INotebookTracker | null,
    private readonly _documents: IDocumentManager | null,
    private readonly _trans: TranslationBundle,
    store: AppStore
  ) {
    const changed = (): void => {
      this._seen = undefined;
      this._beginnings = undefined;
      // What the person looks at is read when it is shown: once per frame, however much changes.
      this._frame ||= requestAnimationFrame(() => {
        this._frame = 0;
        store.update(state => ({ ...state, seen: this.seen }));
      });
    };
    const modelChanged = ({ model }: Notebook): void => {
      model?.cells.changed.connect(changed);
      changed();
    };
    _notebooks?.currentChanged.connect((_, panel) => {
      // To connect once more is to do nothing.
      panel?.context.pathChanged.connect(changed);
      panel?.content.modelChanged.connect(modelChanged);
      panel?.content.model?.cells.changed.connect(changed);
      changed();
      void panel?.context.ready.then(changed);
    });
    _notebooks?.activeCellChanged.connect(changed);
    _notebooks?.selectionChanged.connect(changed);
    NotebookActions.executed.connect(changed);
    changed();
  }

  get documents(): IDocumentManager | null {
    return this._documents;
  }

  /** What the person looks at; null where no notebook is open. It is read once, until it changes. */
  get seen(): ISeen | null {
    if (this._seen === undefined) {
      const current = this._current;
      this._seen = current && this._look(current);
    }
    return this._seen;
  }

  /** What there is to begin with: the whole notebook is read for it, once until something changes. */
  get beginnings(): IBeginnings {
    if (this._beginnings === undefined) {
      this._beginnings = {
        failed: failedOf(this._models, this._current?.panel.content.activeCellIndex ?? -1),
        table: tableOf(this._models.map(cell => cell.sharedModel.source))
      };
    }
    return this._beginnings;
  }

  private _look({ panel: { content }, path }: IOpen): ISeen {
    const active = content.activeCell;
    const selected = content.widgets.filter(cell => content.isSelectedOrActive(cell));
    return {
      notebook: path,
      cell:
        active && nameOf(content.activeCellIndex, active.model.id, active.model.sharedModel.source),
      selected: selected.length > 1 ? selected.map(cell => cell.model.id) : []
    };
  }

  /** The cells of the notebook that the person looks at. */
  get cells(): ICellName[] {
    return this._models.map((cell, index) => nameOf(index, cell.id, cell.sharedModel.source));
  }

  /** The files below the root. */
  get contents(): Contents.IManager {
    return this._app.serviceManager.contents;
  }

  /**
   * Cells as something that goes with a message.
   *
   * @param source - The notebook's widget that they were dragged from.
   * @param ids - Their ids.
   */
  attachable(source: unknown, ids: readonly string[]): IAttached[] {
    const panel = this._notebooks?.find(each => each.content === source);
    const path = panel === undefined ? null : this._pathOf(panel);
    const cells = panel?.content.widgets ?? [];
    return cells.flatMap((cell, index) =>
      path !== null && ids.includes(cell.model.id)
        ? [this._attached(path, index, cell.model.id)]
        : []
    );
  }

  /**
   * Cells of an open notebook as something that goes with a message.
   *
   * @param notebook - The notebook's path.
   * @param ids - Their ids.
   */
  attachableOf({ notebook, cells }: IAbout): IAttached[] {
    const panel = this._notebooks?.find(each => this._pathOf(each) === notebook);
    return this.attachable(panel?.content, cells);
  }

  /** A cell of the notebook that the person looks at, as something that goes with a message. */
  attached({ index, id }: ICellName): IAttached {
    return this._attached(this._current?.path ?? '', index, id);
  }

  /** Files and folders of a folder below the root whose names begin so; none where it is no folder. */
  async files(folder: string, prefix: string): Promise<string[]> {
    try {
      const found = await this.contents.get(folder, { content: true });
      const items = (found.content ?? []) as { path: string; name: string; type: string }[];
      return items
        .filter(item => item.name.toLowerCase().startsWith(prefix.toLowerCase()))
        .map(item => (item.type === 'directory' ? `${item.path}/` : item.path));
    } catch (error) {
      if (error instanceof Error && 'response' in error) {
        return [];
      }
      throw error;
    }
  }

  /** Puts code below the active cell, in a cell of its own; it is not run. */
  insertCell(source: string): void {
    this._within(content => {
      NotebookActions.insertBelow(content);
      content.activeCell?.model.sharedModel.setSource(source);
    });
  }

  /** Puts code in the place of the active cell's; one undo takes it back. */
  replaceCell(source: string): void {
    this._within(content => {
      const cell = content.activeCell?.model.sharedModel;
      cell?.transact(() => cell.setSource(source));
    });
  }

  /** What stands in a cell of an open notebook; empty where it is not open, or the cell gone. */
  sourceOf(path: string, cell: string): string {
    const panel = this._notebooks?.find(each => this._pathOf(each) === path);
    return (panel && cellOf(panel, cell))?.model.sharedModel.source ?? '';
  }

  /**
   * What a cell of a notebook is written in; null for plain text.
   *
   * @param path - The notebook's path: where it is not open, its code is taken for Python.
   * @param type - The cell's type.
   */
  mimeOf(path: string | null, type: string): string | null {
    if (type !== 'code') {
      return type === 'markdown' ? 'text/x-ipythongfm' : null;
    }
    const panel = this._notebooks?.find(each => this._pathOf(each) === path);
    return panel?.content.codeMimetype ?? 'text/x-ipython';
  }

  /** Opens a notebook where it is not open, and scrolls to a cell. */
  async reveal(path: string, cell: string): Promise<void> {
    const widget = this._documents?.openOrReveal(path) as NotebookPanel | undefined;
    if (widget !== undefined) {
      await widget.context.ready;
      await goTo(widget, cell);
    }
  }

  private _attached(notebook: string, index: number, cell: string): IAttached {
    const label = cellName(index, this._trans);
    return { label, notebook, attachment: { kind: 'cell', cell } };
  }

  /** The notebook that the person looks at. */
  private get _shown(): NotebookPanel | null {
    const panel = this._notebooks?.currentWidget ?? null;
    return panel?.isDisposed === false ? panel : null;
  }

  /** Does something in that notebook, once it is loaded; where there is none, the person is told. */
  private _within(act: (content: Notebook) => void): void {
    const panel = this._shown;
    if (panel === null) {
      Notification.warning(this._trans.__('Open a notebook first.'), {
        autoClose: 5000
      });
    } else {
      void panel.context.ready.then(() => act(panel.content));
    }
  }

  /** The notebook that the person looks at, where the server has it: it knows nothing of other drives. */
  private get _current(): IOpen | null {
    const panel = this._shown;
    const path = panel && this._pathOf(panel);
    return panel === null || path === null ? null : { panel, path };
  }

  /** The cells of that notebook: their widgets may be made later. */
  private get _models(): readonly ICellModel[] {
    return [...(this._current?.panel.content.model?.cells ?? [])];
  }

  private _pathOf({ context }: NotebookPanel): string | null {
    return serverPath(this.contents, context.path);
  }

  /** Undefined where it is to be read anew. */
  private _seen: ISeen | null | undefined;
  private _beginnings: IBeginnings | undefined;
  private _frame = 0;
}

function nameOf(index: number, id: string, source: string): ICellName {
  const line = source.split('\n').find(each => each.trim() !== '') ?? '';
  return { id, index, line: line.slice(0, 80) };
}

function failedOf(cells: readonly ICellModel[], active: number): ICellName | null {
  const failed = cells.flatMap((cell, index) =>
    hasError(cell) ? [nameOf(index, cell.id, cell.sharedModel.source)] : []
  );
  return failed.find(({ index }) => index === active) ?? failed[0] ?? null;
}

function hasError(model: ICellModel): boolean {
  const outputs = model.type === 'code' ? (model as ICodeCellModel).outputs : null;
  return outputs !== null && outputs.length > 0 && outputs.get(outputs.length - 1).type === 'error';
}
