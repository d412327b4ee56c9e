import type { ISharedCell, YCodeCell } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';
import type { INotebookModel, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { JSONExt, UUID } from '@lumino/coreutils';

import { backOff } from '../api/retry';
import { changedFields, isOfOneFormat, isSame } from './cells';
import { VersionCounter } from './versionCounter';
import { diffSteps } from './notebookDiff';
import { setOutputs } from './outputs';
import type { IApply, IOutputs, TabRequest, Step } from './protocol';
import { Refusal } from './protocol';
import { RoomSave } from './roomSave';
import { type IOpenContent, type IState, SaveQueue } from './saveQueue';
import { applySteps } from './applySteps';
import { threeWayMerge } from './threeWayMerge';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** Approximate characters of cells in one answer. */
const MAX_ANSWER = 4_000_000;
/** Maximum characters of a cell in an answer. */
const MAX_CELL = 24_000_000;
/** Maximum number of retries to read the file: about 13 seconds. */
const MAX_RETRIES = 5;
/** Number of operations of which the ids are remembered. */
const MAX_OPERATIONS = 500;

/** A notebook that is open in this page: answers the server's requests to read and change it. */
export class OpenNotebook {
  /**
   * @param _panels - Returns the views of the notebook in this page.
   * @param isAsInFile - Whether it is unchanged since it was read.
   */
  constructor(
    readonly context: Context,
    contents: Contents.IManager,
    private readonly _panels: () => NotebookPanel[],
    isAsInFile: boolean
  ) {
    this.versions = new VersionCounter(context.model.sharedModel);
    this._saving = context.model.collaborative
      ? new RoomSave(context, contents)
      : new SaveQueue(
          context,
          contents,
          {
            version: () => this.versions.now,
            state: content => ({ content, version: this.versions.now, keys: this._keys() }),
            merge: this._merge.bind(this),
            unsaved: this._unsaved.bind(this)
          },
          isAsInFile ? context.model.sharedModel.toJSON() : null
        );
  }

  /** The page's id for this notebook. */
  readonly id = UUID.uuid4();

  readonly versions: VersionCounter;

  /** Whether it has changes that only this page has; those of a shared notebook are in its room. */
  get dirty(): boolean {
    return !this.shared && this.context.model.dirty;
  }

  /** Whether all pages that have it open share it by collaboration. */
  get shared(): boolean {
    return this.context.model.collaborative === true;
  }

  /** Answer a request of the server. */
  async answer(request: TabRequest): Promise<object> {
    switch (request.method) {
      case 'read':
        return this._changes(request.since);
      case 'apply':
        return this._apply(request);
      case 'outputs':
        return this._outputs(request);
      case 'save':
        return { left: await this._saving.save() };
      case 'written':
        this._saving.written(request.hash);
        return {};
      case 'refresh':
        await this._saving.refresh();
        return {};
      default:
        throw new Refusal('bad_request', 'Unknown method.');
    }
  }

  /** Read what others wrote to the file before this tab became its only writer. */
  catchUp(): void {
    // What the server said of the file over a former connection is lost.
    this._saving.written(null);
    const refresh = async (tries: number): Promise<void> => {
      try {
        await this._saving.refresh();
      } catch (error) {
        // A conflict with unsaved changes is reported when the notebook is saved. Another failed
        // request is repeated: nothing else would read the file.
        if (!(error instanceof Refusal) && tries < MAX_RETRIES) {
          await backOff(tries);
          if (!this.context.isDisposed) {
            await refresh(tries + 1);
          }
        }
      }
    };
    this._caughtUp = refresh(0);
  }

  /** Settled once the file was read; no request is answered before. */
  get caughtUp(): Promise<void> {
    return this._caughtUp;
  }

  dispose(): void {
    this.versions.dispose();
  }

  /**
   * Return the cells that changed since a version, or the first part of them.
   *
   * @param ordered - The last version of which the server knows the order.
   */
  private _changes(since: number, ordered = since): object {
    const { versions } = this;
    const model = this.context.model.sharedModel;
    const at = (cell: ISharedCell): number => versions.at(versions.keyOf(cell));
    const changedCells = model.cells.filter(cell => at(cell) > since);
    changedCells.sort((a, b) => at(a) - at(b));
    const changed: Record<string, nbformat.ICell> = {};
    let size = 0;
    let version = versions.now;
    let more = false;
    for (const cell of changedCells) {
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
      changed[versions.keyOf(cell)] = stored;
      version = at(cell);
    }
    return {
      version: more ? version : versions.now,
      changed,
      more,
      ...(versions.orderVersion > ordered && {
        order: this._keys()
      }),
      ...(versions.metadataVersion > since && {
        metadata: model.metadata,
        nbformat: [model.nbformat, model.nbformat_minor]
      })
    };
  }

  /** Return the keys of the cells, in order. */
  private _keys(): string[] {
    return this.context.model.sharedModel.cells.map(cell => this.versions.keyOf(cell));
  }

  /** Return what the notebook has and a former state lacks, and its state; null if that is too much. */
  private _unsaved({ content, version, keys }: IState): ReturnType<IOpenContent['unsaved']> {
    const { versions } = this;
    const model = this.context.model.sharedModel;
    const { metadata, nbformat, nbformat_minor } = model;
    if (
      versions.metadataVersion > version &&
      !isSame({ metadata, nbformat, nbformat_minor }, { ...content, cells: undefined })
    ) {
      return null;
    }
    const numbers = new Map(keys.map((key, number) => [key, number]));
    const order: [number, number][] = [];
    const present: nbformat.ICell[] = [];
    const names: string[] = [];
    const cells: Record<number, object> = {};
    let added = 0;
    for (const cell of model.cells) {
      const key = versions.keyOf(cell);
      const number = numbers.get(key) ?? --added;
      const run = order.at(-1);
      if (run?.[1] === number) {
        run[1]++;
      } else {
        order.push([number, number + 1]);
      }
      names.push(key);
      const old = content.cells[number];
      if (old !== undefined && versions.at(key) <= version) {
        present.push(old);
        continue;
      }
      const now = cell.toJSON();
      present.push(now);
      cells[number] = old === undefined ? now : changedFields(old, now);
    }
    if (JSON.stringify(cells).length > MAX_ANSWER) {
      return null;
    }
    return {
      left: { cells, order },
      state: { content: { ...content, cells: present }, version: versions.now, keys: names }
    };
  }

  private _apply(request: IApply): object {
    let applied = this._operations.has(request.op);
    let ordered = request.since;
    const isThere = request.reverts === undefined || this._operations.has(request.reverts);
    if (!applied && isThere && this._isCurrent(request)) {
      this._applySteps(request.steps, cell => this.versions.keyOf(cell));
      this._remember(request.op);
      applied = true;
      ordered = request.needs.order ? this.versions.orderVersion : ordered;
    }
    const stays = !applied && request.reverts !== undefined && isThere;
    const changes = this._changes(request.since, ordered);
    return { applied, stays, left: applied ? this._saving.offer() : null, ...changes };
  }

  /**
   * Merge the file into the open notebook. Equal cells are not touched, so they keep their view state.
   *
   * @param base - The content of the file before; null if unknown.
   */
  private _merge(
    file: nbformat.INotebookContent,
    base: nbformat.INotebookContent | null,
    load: (file: nbformat.INotebookContent) => void
  ): void {
    const { model } = this.context;
    const shared = model.sharedModel;
    const present = shared.toJSON();
    const { dirty } = model;
    const known = isOfOneFormat(present, file) ? file : null;
    const wanted = dirty ? base && threeWayMerge(base, present, file) : known;
    const steps = wanted && diffSteps(present.cells, wanted.cells);
    if (wanted === null || steps === null) {
      if (dirty) {
        throw new Refusal('file_changed', 'The file was changed where something is unsaved.');
      }
      load(file);
      return;
    }
    this._copyTrust(file.cells, steps);
    this._applySteps(steps);
    if (!JSONExt.deepEqual(present.metadata, wanted.metadata)) {
      shared.setMetadata(wanted.metadata);
    }
    model.dirty = dirty;
  }

  /** Set the trust of cells with new outputs to that in the file. */
  private _copyTrust(stored: readonly nbformat.ICell[], steps: readonly Step[]): void {
    const shown = steps.filter(step => step.do === 'set' && step.outputs !== undefined);
    const ids = new Set(shown.map(step => (step as { id: string }).id));
    const trusted = new Map(stored.map(cell => [cell['id'], cell.metadata.trusted === true]));
    for (const cell of this.context.model.cells) {
      if (ids.has(cell.id)) {
        cell.trusted = trusted.get(cell.id) ?? false;
      }
    }
  }

  private _applySteps(steps: readonly Step[], keyOf?: (cell: ISharedCell) => string): void {
    const active = this._panels().map(panel => panel.content.activeCell?.model.id);
    applySteps(this.context.model.sharedModel, steps, keyOf);
    this._keepActive(active);
    if (steps.some(step => step.do === 'delete')) {
      this._panels().forEach(({ content }) => keepInSight(content));
    }
  }

  private _isCurrent({ needs, since }: IApply): boolean {
    if (needs.order && this.versions.orderVersion > since) {
      return false;
    }
    return needs.cells.every(id => this.versions.isUnchangedSince(id, since));
  }

  private _remember(op: string): void {
    this._operations.add(op);
    const [oldest] = this._operations;
    if (this._operations.size > MAX_OPERATIONS && oldest !== undefined) {
      this._operations.delete(oldest);
    }
  }

  /** Keep the active cell, also if it was moved. */
  private _keepActive(active: (string | undefined)[]): void {
    this._panels().forEach((panel, number) => {
      const { content } = panel;
      const index = content.widgets.findIndex(cell => cell.model.id === active[number]);
      // Another cell may have the same id.
      if (index >= 0 && content.activeCell?.model.id !== active[number]) {
        content.activeCellIndex = index;
      }
    });
  }

  private _outputs(request: IOutputs): object {
    const { cells, sharedModel } = this.context.model;
    const shared = sharedModel.cells.find(each => this.versions.keyOf(each) === request.cell);
    if (shared?.cell_type !== 'code') {
      return { gone: true };
    }
    if (request.start) {
      for (const cell of cells) {
        if (cell.sharedModel === shared) {
          cell.trusted = false;
        }
      }
    }
    const { versions } = this;
    const { expected } = request;
    const applied = expected === null || versions.outputsAt(request.cell) <= expected;
    if (applied) {
      setOutputs(shared as YCodeCell, request);
    }
    return { applied, version: versions.now };
  }

  private readonly _saving: SaveQueue | RoomSave;
  private _caughtUp: Promise<void> = Promise.resolve();
  private readonly _operations = new Set<string>();
}

/** Scroll to the last cell if all that were in view are deleted: below it there is empty space. */
function keepInSight(content: Notebook): void {
  const { bottom } = content.widgets.at(-1)?.node.getBoundingClientRect() ?? { bottom: 0 };
  if (bottom < content.outerNode.getBoundingClientRect().top) {
    void content.scrollToItem(content.widgets.length - 1);
  }
}
