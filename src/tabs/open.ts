import type { YCodeCell } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';
import type { INotebookModel, NotebookPanel } from '@jupyterlab/notebook';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { JSONExt, UUID } from '@lumino/coreutils';

import { isOfOneFormat } from './cells';
import { Clock } from './clock';
import { stepsTo } from './merging';
import { setOutputs } from './outputs';
import type { IApply, IOutputs, Question, Step } from './protocol';
import { Refusal } from './protocol';
import { Saving } from './saving';
import { carryOut } from './steps';
import { merged } from './threeway';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** Characters of cells that one answer holds, about. */
const MAX_ANSWER = 4_000_000;
/** Characters of a cell that can be told. */
const MAX_CELL = 24_000_000;
/** So many operations of the server are remembered. */
const MAX_OPERATIONS = 500;

/** A notebook that is open in this page, as the server may read and change it. */
export class OpenNotebook {
  /**
   * @param _panels - the views of the notebook in this page.
   * @param isAsInFile - whether nobody has changed it since it was read.
   */
  constructor(
    readonly context: Context,
    contents: Contents.IManager,
    private readonly _panels: () => NotebookPanel[],
    isAsInFile: boolean
  ) {
    this.clock = new Clock(context.model.sharedModel);
    this._saving = new Saving(
      context,
      contents,
      { changes: () => this.clock.now, take: this._take.bind(this) },
      isAsInFile ? context.model.sharedModel.toJSON() : null
    );
  }

  /** The page's name for what it holds. */
  readonly id = UUID.uuid4();

  readonly clock: Clock;

  get dirty(): boolean {
    return this.context.model.dirty;
  }

  /** Answers what the server asks. */
  async answer(question: Question): Promise<object> {
    switch (question.method) {
      case 'read':
        return this._changes(question.since);
      case 'apply':
        return this._apply(question);
      case 'outcome':
        return { applied: this._operations.has(question.op) };
      case 'outputs':
        return this._outputs(question);
      case 'save':
        await this._saving.save();
        return {};
      case 'refresh':
        await this._saving.refresh();
        return {};
      default:
        throw new Refusal('bad_request', 'That cannot be asked.');
    }
  }

  /** Nobody else writes the file from now on: takes what others wrote before. */
  catchUp(): void {
    // Where the server does not answer, its line is about to be cut, and opened again; and what
    // cannot be together with what is unsaved is told when it is to be saved.
    this._caughtUp = this._saving.refresh().catch(() => undefined);
  }

  /** Settled once what others wrote to the file is here; nothing is to be answered before. */
  get caughtUp(): Promise<void> {
    return this._caughtUp;
  }

  dispose(): void {
    this.clock.dispose();
  }

  /** What changed since a number, or the first part of it. */
  private _changes(since: number): object {
    const { clock } = this;
    const model = this.context.model.sharedModel;
    const news = model.cells.filter(cell => clock.at(cell.getId()) > since);
    news.sort((a, b) => clock.at(a.getId()) - clock.at(b.getId()));
    const changed: Record<string, nbformat.ICell> = {};
    let size = 0;
    let version = clock.now;
    let more = false;
    for (const cell of news) {
      const stored = cell.toJSON();
      const length = JSON.stringify(stored).length;
      if (length > MAX_CELL) {
        throw new Refusal('too_large', `Cell ${cell.getId()} has ${length} characters.`);
      }
      if (size > 0 && size + length > MAX_ANSWER) {
        more = true;
        break;
      }
      size += length;
      changed[cell.getId()] = stored;
      version = clock.at(cell.getId());
    }
    return {
      version: more ? version : clock.now,
      changed,
      more,
      ...(clock.orderAt > since && { order: model.cells.map(cell => cell.getId()) }),
      ...(clock.restAt > since && {
        metadata: model.metadata,
        nbformat: [model.nbformat, model.nbformat_minor]
      })
    };
  }

  private _apply(told: IApply): object {
    let applied = this._operations.has(told.op);
    if (!applied && this._isAsSeen(told)) {
      this._carryOut(told.steps);
      this._remember(told.op);
      applied = true;
    }
    return { applied, ...this._changes(told.since) };
  }

  /**
   * Takes what is in the file: what is the same there stays as it is, with scroll and selection.
   *
   * @param base - what was in it before; null where that is not known.
   */
  private _take(
    file: nbformat.INotebookContent,
    base: nbformat.INotebookContent | null,
    load: (file: nbformat.INotebookContent) => void
  ): void {
    const { model } = this.context;
    const shared = model.sharedModel;
    const present = shared.toJSON();
    const { dirty } = model;
    const known = isOfOneFormat(present, file) ? file : null;
    const wanted = dirty ? base && merged(base, present, file) : known;
    const steps = wanted && stepsTo(present.cells, wanted.cells);
    if (wanted === null || steps === null) {
      if (dirty) {
        throw new Refusal('file_changed', 'The file was changed where something is unsaved.');
      }
      load(file);
      return;
    }
    this._trustAs(file.cells, steps);
    this._carryOut(steps);
    if (!JSONExt.deepEqual(present.metadata, wanted.metadata)) {
      shared.setMetadata(wanted.metadata);
    }
    model.dirty = dirty;
  }

  /** Outputs of others are as trusted as the server takes them for. */
  private _trustAs(stored: readonly nbformat.ICell[], steps: readonly Step[]): void {
    const shown = steps.filter(step => step.do === 'set' && step.outputs !== undefined);
    const ids = new Set(shown.map(step => (step as { id: string }).id));
    const trusted = new Map(stored.map(cell => [cell['id'], cell.metadata.trusted === true]));
    for (const cell of this.context.model.cells) {
      if (ids.has(cell.id)) {
        cell.trusted = trusted.get(cell.id) ?? false;
      }
    }
  }

  private _carryOut(steps: readonly Step[]): void {
    const active = this._panels().map(panel => panel.content.activeCell?.model.id);
    carryOut(this.context.model.sharedModel, steps);
    this._keepActive(active);
  }

  private _isAsSeen({ needs, since, exact }: IApply): boolean {
    if (needs.order && this.clock.orderAt > since) {
      return false;
    }
    return needs.cells.every(id => this.clock.isSince(id, since, exact));
  }

  private _remember(op: string): void {
    this._operations.add(op);
    const [oldest] = this._operations;
    if (this._operations.size > MAX_OPERATIONS && oldest !== undefined) {
      this._operations.delete(oldest);
    }
  }

  /** The cell that was active stays so, also where it was moved. */
  private _keepActive(active: (string | undefined)[]): void {
    this._panels().forEach((panel, number) => {
      const index = panel.content.widgets.findIndex(cell => cell.model.id === active[number]);
      if (index >= 0 && index !== panel.content.activeCellIndex) {
        panel.content.activeCellIndex = index;
      }
    });
  }

  private _outputs(told: IOutputs): object {
    const { cells, sharedModel } = this.context.model;
    const shared = sharedModel.cells.find(each => each.getId() === told.cell);
    if (shared?.cell_type !== 'code') {
      return { gone: true };
    }
    if (told.start) {
      for (const cell of cells) {
        if (cell.sharedModel === shared) {
          cell.trusted = false;
        }
      }
    }
    return setOutputs(shared as YCodeCell, told);
  }

  private readonly _saving: Saving;
  private _caughtUp: Promise<void> = Promise.resolve();
  private readonly _operations = new Set<string>();
}
