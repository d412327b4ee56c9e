import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import {
  type INotebookTracker,
  type Notebook,
  NotebookActions,
  type NotebookPanel
} from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';

import { goTo } from '../notebook/cells';
import { outputsOf } from '../notebook/cellOutputs';
import { isFile } from '../common/changes';
import { serverPath } from '../common/drives';
import { cellOf, keysFor, keysIn, keysOf } from '../notebook/keys';
import { nameOf, seenIn } from '../notebook/seen';
import { cellName } from '../common/position';
import type { AppStore } from '../state/app';
import type { IAbout, IAttached, ICellName, ISeen } from '../state/compose';
import { tableOf } from './tables';

/** Subjects of suggested prompts in the current notebook. */
export interface IPromptSubjects {
  /** A cell with an error as its last output, preferably the active one; null for none. */
  failed: ICellName | null;
  /** The variable of a table; null for none. */
  table: string | null;
}

/** A cell's model, and its name for the server. */
export interface IKeyed {
  key: string;
  model: ICellModel;
}

/** An open notebook, and its path on the server. */
interface IOpen {
  panel: NotebookPanel;
  path: string;
}

/** The current notebook and its cells, and actions of the panel in it. */
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
      this._promptSubjects = undefined;
      // Updates of the state are throttled to one per frame.
      this._frame ||= requestAnimationFrame(() => {
        this._frame = 0;
        store.update(state => ({ ...state, seen: this.seen }));
      });
    };
    // All changes of sources and outputs.
    const edited = (): void => {
      this._promptSubjects = undefined;
    };
    const connect = (content: Notebook | undefined): void => {
      content?.model?.cells.changed.connect(changed);
      content?.model?.contentChanged.connect(edited);
    };
    const modelChanged = (content: Notebook): void => {
      connect(content);
      changed();
    };
    _notebooks?.currentChanged.connect((_, panel) => {
      // Connecting the same slot again has no effect.
      panel?.context.pathChanged.connect(changed);
      panel?.content.modelChanged.connect(modelChanged);
      connect(panel?.content);
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

  /** The current notebook and cells; null if no notebook is open. Cached until it changes. */
  get seen(): ISeen | null {
    if (this._seen === undefined) {
      const current = this._current;
      this._seen = current && seenIn(current.panel, current.path);
    }
    return this._seen;
  }

  /** Subjects of suggested prompts. Cached until the notebook changes, since all cells are read. */
  get promptSubjects(): IPromptSubjects {
    if (this._promptSubjects === undefined) {
      this._promptSubjects = {
        failed: failedOf(this.keyed, this._current?.panel.content.activeCellIndex ?? -1),
        table: tableOf(this.keyed.map(({ model }) => model.sharedModel.source))
      };
    }
    return this._promptSubjects;
  }

  /** The cells of the current notebook. */
  get cells(): ICellName[] {
    return this.keyed.map(({ key, model }, index) => nameOf(index, key, model));
  }

  /** The cell models of the current notebook. Their widgets may be created later. */
  get keyed(): readonly IKeyed[] {
    const model = this._current?.panel.content.model ?? null;
    const models = [...(model?.cells ?? [])];
    const keys = keysOf(model, models);
    return models.map((each, index) => ({ key: keys[index] ?? each.id, model: each }));
  }

  /** The editor of the active cell; null if it has none yet. */
  get activeEditor(): CodeEditor.IEditor | null {
    return this._current?.panel.content.activeCell?.editor ?? null;
  }

  /** The widget in front in the main area. */
  get front(): Widget | null {
    return this._app.shell.currentWidget;
  }

  /** The contents manager. */
  get contents(): Contents.IManager {
    return this._app.serviceManager.contents;
  }

  /**
   * Return dragged cells as attachments.
   *
   * @param source - The notebook widget from which they were dragged.
   * @param names - The ids or keys of the cells.
   */
  attachable(source: unknown, names: readonly string[]): IAttached[] {
    const panel = this._notebooks?.find(each => each.content === source);
    const path = panel === undefined ? null : this._pathOf(panel);
    const wanted = keysFor(panel, names);
    return path === null || panel === undefined
      ? []
      : keysIn(panel).flatMap((key, index) =>
          wanted.includes(key) ? [this._attached(path, index, key)] : []
        );
  }

  /** Return what a message is about with the keys of its cells, which may be named by their ids. */
  named({ notebook, cells }: IAbout): IAbout {
    const panel = this._notebooks?.find(each => this._pathOf(each) === notebook);
    return { notebook, cells: keysFor(panel, cells) };
  }

  /**
   * Return cells of an open notebook as attachments.
   *
   * @param about - The notebook's path, and the ids or keys of the cells.
   */
  attachableOf({ notebook, cells }: IAbout): IAttached[] {
    const panel = this._notebooks?.find(each => this._pathOf(each) === notebook);
    return this.attachable(panel?.content, cells);
  }

  /** Return a cell of the current notebook as an attachment. */
  attached({ index, id }: ICellName): IAttached {
    return this._attached(this._current?.path ?? '', index, id);
  }

  /** Return those of some cells of the current notebook that have code and were not run. */
  unrun(keys: readonly string[]): string[] {
    return this.keyed
      .filter(
        ({ key, model }) =>
          keys.includes(key) &&
          model.type === 'code' &&
          model.sharedModel.source.trim() !== '' &&
          (model as ICodeCellModel).executionCount === null
      )
      .map(({ key }) => key);
  }

  /** Insert code as a new cell below the active one, without running it. */
  insertCell(source: string): void {
    this._within(content => {
      NotebookActions.insertBelow(content);
      content.activeCell?.model.sharedModel.setSource(source);
    });
  }

  /** Replace the source of the active cell, in one undo step. */
  replaceCell(source: string): void {
    this._within(({ activeCell }) => {
      if (activeCell?.readOnly === true) {
        this._warn(this._trans.__('This cell is read-only.'));
      } else {
        activeCell?.model.sharedModel.setSource(source);
      }
    });
  }

  /** Return the source of a cell of an open notebook; empty if either is gone. */
  sourceOf(path: string, cell: string): string {
    const panel = this._notebooks?.find(each => this._pathOf(each) === path);
    return (panel && cellOf(panel, cell))?.model.sharedModel.source ?? '';
  }

  /**
   * Return the MIME type of a cell's source; null for plain text.
   *
   * @param path - The notebook's path. If it is not open, Python is assumed.
   * @param type - The cell's type.
   */
  mimeOf(path: string | null, type: string): string | null {
    if (type !== 'code') {
      return type === 'markdown' ? 'text/x-ipythongfm' : null;
    }
    const panel = this._notebooks?.find(each => this._pathOf(each) === path);
    return panel?.content.codeMimetype ?? 'text/x-ipython';
  }

  /** Open a notebook if needed, and scroll to a cell; or open a text file. */
  async reveal(path: string, cell: string): Promise<void> {
    const current = await this._pathNow(path, cell);
    const widget = this._documents?.openOrReveal(current) as NotebookPanel | undefined;
    if (widget !== undefined && !isFile(cell)) {
      await widget.context.ready;
      await goTo(widget, cell);
    }
  }

  /** Return the path of a notebook. One that was renamed after a message is found by its cell. */
  private async _pathNow(path: string, cell: string): Promise<string> {
    try {
      await this.contents.get(path, { content: false });
      return path;
    } catch {
      const panel = this._notebooks?.find(each => keysIn(each).includes(cell));
      return panel?.context.path ?? path;
    }
  }

  private _attached(notebook: string, index: number, cell: string): IAttached {
    const label = cellName(index, this._trans);
    return { label, notebook, attachment: { kind: 'cell', cell } };
  }

  /** The current notebook panel. */
  private get _shown(): NotebookPanel | null {
    const panel = this._notebooks?.currentWidget ?? null;
    return panel?.isDisposed === false ? panel : null;
  }

  /** Act in the current notebook once it is loaded, or show a notification if there is none. */
  private _within(act: (content: Notebook) => void): void {
    const panel = this._shown;
    if (panel === null) {
      this._warn(this._trans.__('Open a notebook first.'));
    } else {
      void panel.context.ready.then(() => act(panel.content));
    }
  }

  private _warn(text: string): void {
    Notification.warning(text, { autoClose: 5000 });
  }

  /** The current notebook, unless it is on another drive. */
  private get _current(): IOpen | null {
    const panel = this._shown;
    const path = panel && this._pathOf(panel);
    return panel === null || path === null ? null : { panel, path };
  }

  private _pathOf({ context }: NotebookPanel): string | null {
    return serverPath(this.contents, context.path);
  }

  /** Undefined if it must be read again. */
  private _seen: ISeen | null | undefined;
  private _promptSubjects: IPromptSubjects | undefined;
  private _frame = 0;
}

function failedOf(cells: readonly IKeyed[], active: number): ICellName | null {
  const failed = cells.flatMap(({ key, model }, index) =>
    hasError(model) ? [nameOf(index, key, model)] : []
  );
  return failed.find(({ index }) => index === active) ?? failed[0] ?? null;
}

function hasError(model: ICellModel): boolean {
  const outputs = outputsOf(model);
  return outputs !== null && outputs.length > 0 && outputs.get(outputs.length - 1).type === 'error';
}
