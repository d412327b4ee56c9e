import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';

import { type IContextMethods, noteWritten, replaceMethods } from '../lab/context';
import { isSameContent } from './cells';
import { Refusal } from './protocol';

type Context = DocumentRegistry.Context;
type Content = nbformat.INotebookContent;

/** The open document of a notebook. */
export interface IOpenContent {
  /** Return the version of the last change. */
  changes(): number;
  /**
   * Merge the file with the unsaved changes.
   *
   * @param base - The content of the file before; null if unknown.
   * @param load - Replaces everything by the file, as JupyterLab does.
   * @throws Refusal - There is a conflict.
   */
  merge(file: Content, base: Content | null, load: (file: Content) => void): void;
  /** Note that the file has this version of the notebook, or is about to; -1 for no known one. */
  isSaved(version: number): void;
}

/** Milliseconds in which the server writes the file: then saves go on. */
const WRITE = 10_000;

/**
 * Milliseconds after which JupyterLab saves what the server has written: it signs the notebook, so that
 * what a person trusts stays trusted.
 */
const SIGN = 10_000;

/**
 * Serializes the saves of one notebook.
 *
 * Two saves at once end in a false "File Changed". So `context.save` and `context.revert` are
 * replaced: saves of the person and autosaves wait in this queue, too.
 */
export class SaveQueue {
  /**
   * @param _open - The open document.
   * @param _file - The content of the file; null if unknown.
   */
  constructor(
    private readonly _context: Context,
    private readonly _contents: Contents.IManager,
    private readonly _open: IOpenContent,
    private _file: Content | null
  ) {
    this._own = replaceMethods(_context, own => ({
      // While its dialog is open, JupyterLab calls these itself.
      save: () => (this._isAsking ? own.save() : this._queue(() => this._saveForPerson())),
      revert: () => (this._isAsking ? own.revert() : this._queue(own.revert)),
      load: content => this._load(content as Content, own.load),
      showError: async (...args) => (this._hidesDialogs ? undefined : own.showError(...args)),
      askConflict: (...args) => this._askConflict(() => own.askConflict(...args))
    }));
  }

  /**
   * Save for an agent: throw where a dialog would open.
   *
   * @param isOurs - Whether the notebook differs from the file by changes of the server alone.
   * @returns See `hold`.
   */
  async save(isOurs: boolean): Promise<string | null> {
    this.written(null);
    const hash = isOurs ? this.hold() : null;
    if (hash === null) {
      await this._saveForAgent();
    }
    return hash;
  }

  /**
   * Leave a save to the server, for a notebook that differs from the file by its changes alone.
   *
   * @returns The hash of the file that the server has to write; saves wait until then. Null if the
   *   page has to save.
   */
  hold(): string | null {
    const hash = this._hash ?? this._context.contentsModel?.hash ?? null;
    if (hash !== null && this._working === 0 && !this._isAsking) {
      const settled = new PromiseDelegate<void>();
      const timer = window.setTimeout(() => this.written(null), WRITE);
      void settled.promise.then(() => window.clearTimeout(timer));
      const content = this._context.model.toJSON() as Content;
      this._held = { content, changes: this._open.changes(), settled };
      this._open.isSaved(this._held.changes);
      void this._queue(() => settled.promise);
      return hash;
    }
    return null;
  }

  /** The server has written the file, or it has not. */
  written(hash: string | null): void {
    const held = this._held;
    if (held === null) {
      return;
    }
    this._held = null;
    if (hash === null) {
      this._open.isSaved(-1);
    } else {
      this._hash = hash;
      this._file = held.content;
      if (this._open.changes() === held.changes) {
        this._context.model.dirty = false;
      }
      this._signSoon();
    }
    held.settled.resolve();
  }

  private _signSoon(): void {
    this._signing ??= window.setTimeout(() => {
      this._signing = null;
      const isTrusted = [...(this._context.model as INotebookModel).cells].some(
        cell => cell.trusted && cell.type === 'code' && (cell as ICodeCellModel).outputs.length > 0
      );
      if (this._hash !== null && isTrusted && !this._context.isDisposed) {
        this._queueForAgent(() => this._withoutDialogs(() => this._saveForPerson())).catch(
          () => undefined
        );
      }
    }, SIGN);
  }

  private async _saveForAgent(): Promise<void> {
    // Callers share a save that waits in the queue.
    const next = (this._next ??= this._queueForAgent(async () => {
      this._next = null;
      if (!this._context.model.dirty) {
        return;
      }
      try {
        await this._takeFile();
        await this._withoutDialogs(() => this._saveAll());
      } catch (error) {
        if (error instanceof Refusal) {
          throw error;
        }
        const { message, response } = error as { message?: string; response?: Response };
        throw new Refusal('save_failed', message ?? String(error), response?.status ?? 0);
      }
    }));
    await next.finally(() => {
      // It may have been rejected before its turn.
      if (this._next === next) {
        this._next = null;
      }
    });
  }

  /**
   * Merge what others wrote to the file.
   *
   * @throws Refusal - It conflicts with unsaved changes.
   */
  async refresh(): Promise<void> {
    await this._queueForAgent(() => this._takeFile());
  }

  // --- the file

  private async _takeFile(): Promise<void> {
    const { _hash: hash } = this;
    // JupyterLab compares the file with what it has read or saved itself.
    if (hash !== null || (await this._isOutdated())) {
      const isForUs = hash !== null && (await this._stored()).hash === hash;
      this._taking = isForUs ? 'ours' : 'theirs';
      await this._withoutDialogs(this._own.revert).finally(() => (this._taking = null));
    }
  }

  /** Whether the file changed since it was read or saved here. */
  private async _isOutdated(): Promise<boolean> {
    const known = this._context.contentsModel;
    const now = await this._stored();
    if (known?.hash && now.hash) {
      return known.hash !== now.hash;
    }
    return known !== null && known.last_modified !== now.last_modified;
  }

  private _stored(): Promise<Contents.IModel> {
    return this._contents.get(this._context.path, { content: false, hash: true });
  }

  /**
   * Handle content that JupyterLab has read from the file.
   *
   * JupyterLab itself would create every cell again and drop unsaved changes, which is for the
   * person to choose.
   */
  private _load(file: Content, load: (file: Content) => void): void {
    if (this._taking !== null) {
      // The file may be from a save whose response was lost.
      const unconfirmed = this._unconfirmed?.content;
      const base = unconfirmed && isSameContent(unconfirmed, file) ? unconfirmed : this._file;
      this._open.merge(
        file,
        base && this._taking === 'ours' ? withOutputs(base, file) : base,
        load
      );
    } else {
      load(file);
    }
    this._file = file;
    this._unconfirmed = null;
    this._hash = null;
    if (!this._context.model.dirty || this._taking === null) {
      this._open.isSaved(this._open.changes());
    }
  }

  // --- saves

  private async _saveForPerson(): Promise<void> {
    // On a conflict, JupyterLab asks what to keep.
    await this._takeFile().catch(() => undefined);
    await this._saveAll();
  }

  private async _saveAll(): Promise<void> {
    const before = this._file;
    await this._write();
    if (this._file !== before) {
      // JupyterLab asked, and the person chose the file.
      return;
    }
    const written = this._unconfirmed;
    this._file = written?.content ?? null;
    this._unconfirmed = null;
    this._hash = null;
    if (written !== null) {
      this._open.isSaved(written.changes);
    }
    if (this._open.changes() !== written?.changes) {
      // Changes made during the save are not in the file, although JupyterLab clears the flag.
      this._context.model.dirty = true;
    }
  }

  /** Call JupyterLab's own save, and record what it writes. */
  private async _write(): Promise<void> {
    let isNoted = false;
    const release = noteWritten(this._context.model, content => {
      if (!isNoted) {
        isNoted = true;
        this._unconfirmed = { content: content as Content, changes: this._open.changes() };
      }
    });
    await this._own.save().finally(release);
  }

  // --- dialogs

  /** Suppress JupyterLab's dialogs: the agent gets an error, and the person is not asked. */
  private async _withoutDialogs(work: () => Promise<void>): Promise<void> {
    this._hidesDialogs = true;
    await work().finally(() => (this._hidesDialogs = false));
  }

  /** Open JupyterLab's dialog on a conflict. Meanwhile agents are refused. */
  private async _askConflict(ask: () => Promise<unknown>): Promise<unknown> {
    if (this._hidesDialogs) {
      throw changed();
    }
    this._isAsking = true;
    this._agents.forEach(agent => agent.reject(changed()));
    try {
      return await ask();
    } finally {
      this._isAsking = false;
    }
  }

  // --- one after the other

  private _queue(work: () => Promise<void>): Promise<void> {
    this._working++;
    const done = this._last.then(work).finally(() => this._working--);
    this._last = done.catch(() => undefined);
    return done;
  }

  /** Queue work of an agent, which does not wait while a dialog is open. */
  private async _queueForAgent(work: () => Promise<void>): Promise<void> {
    if (this._isAsking) {
      throw changed();
    }
    const agent = new PromiseDelegate<never>();
    this._agents.add(agent);
    const done = this._queue(async () => {
      if (this._agents.has(agent)) {
        await work();
      }
    });
    await Promise.race([done, agent.promise]).finally(() => this._agents.delete(agent));
  }

  private readonly _own: IContextMethods;
  private _last: Promise<void> = Promise.resolve();
  private _next: Promise<void> | null = null;
  /** The agents that wait; rejected when a dialog opens. */
  private readonly _agents = new Set<PromiseDelegate<never>>();
  /** The jobs in the queue. */
  private _working = 0;
  /** The hash of the file if the server has written it since JupyterLab read or saved it. */
  private _hash: string | null = null;
  /** What the server is writing. */
  private _held: { content: Content; changes: number; settled: PromiseDelegate<void> } | null =
    null;
  private _signing: number | null = null;
  private _isAsking = false;
  /** Whose file is merged: as the server wrote it for this page, or another one; null for none. */
  private _taking: 'ours' | 'theirs' | null = null;
  private _hidesDialogs = false;
  /** What a save wrote, until its response arrives. */
  private _unconfirmed: { content: Content; changes: number } | null = null;
}

/**
 * Return a notebook with the outputs of another one.
 *
 * What the server writes for this page may have later outputs than the page had when it asked. The
 * server sends them here as well, so they are no change by somebody else.
 */
function withOutputs(notebook: Content, { cells }: Content): Content {
  const others = new Map(cells.map(cell => [cell['id'], cell]));
  return {
    ...notebook,
    cells: notebook.cells.map(cell => {
      const { outputs, execution_count } = others.get(cell['id']) ?? cell;
      return cell.cell_type === 'code' ? { ...cell, outputs, execution_count } : cell;
    })
  };
}

function changed(): Refusal {
  return new Refusal('file_changed', 'The file has changed on disk.');
}
