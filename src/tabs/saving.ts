import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type * as nbformat from '@jupyterlab/nbformat';
import type { Contents } from '@jupyterlab/services';

import { Refusal } from './protocol';

type Context = DocumentRegistry.Context;

/** What a page holds of a notebook. */
export interface IHeld {
  /** The number of the last change, which grows with each. */
  changes(): number;
  /** All of it. */
  content(): nbformat.INotebookContent;
  /**
   * Takes what is in the file, together with what is unsaved.
   *
   * @param base - what was in the file before; null where that is not known.
   * @throws Refusal
   */
  take(file: nbformat.INotebookContent, base: nbformat.INotebookContent | null): void;
}

/**
 * Saves of one notebook, one after the other.
 *
 * Two saves at once end in a false "File Changed". So a person's saves and JupyterLab's own wait
 * here, too: `context.save` is this from now on.
 */
export class Saving {
  /**
   * @param _held - what the page holds of the notebook.
   * @param _file - what is in the file; null where that is not known.
   */
  constructor(
    private readonly _context: Context,
    private readonly _contents: Contents.IManager,
    private readonly _held: IHeld,
    private _file: nbformat.INotebookContent | null
  ) {
    this._save = _context.save.bind(_context);
    _context.save = () => this._queue(() => this._saveForPerson());
    const { model } = _context;
    const load = model.fromJSON.bind(model);
    model.fromJSON = content => {
      const file = content as nbformat.INotebookContent;
      if (this._isTaking) {
        this._held.take(file, this._file);
      } else {
        load(content);
      }
      this._file = file;
    };
  }

  /** Saves for an agent: where a dialog would come, it is told instead. */
  async save(): Promise<void> {
    // Whoever comes while one waits for its turn shares it.
    this._next ??= this._queue(async () => {
      this._next = null;
      if (!this._context.model.dirty) {
        return;
      }
      try {
        await this._takeFile();
        await this._quietly(() => this._saveAll());
      } catch (error) {
        if (error instanceof Refusal) {
          throw error;
        }
        const { message, response } = error as { message?: string; response?: Response };
        throw new Refusal('save_failed', message ?? String(error), response?.status ?? 0);
      }
    });
    await this._next;
  }

  /**
   * Takes what others wrote to the file.
   *
   * @throws Refusal where that cannot be together with what is unsaved here.
   */
  async refresh(): Promise<void> {
    await this._queue(() => this._takeFile());
  }

  private async _takeFile(): Promise<void> {
    if (await this.isOutdated()) {
      await this._quietly(() => this._revert());
    }
  }

  /** JupyterLab's own revert, but for what it does to the model: it would make every cell anew. */
  private async _revert(): Promise<void> {
    this._isTaking = true;
    try {
      await this._context.revert();
    } finally {
      this._isTaking = false;
    }
  }

  /** Whether the file is another one than what was opened or saved here. */
  async isOutdated(): Promise<boolean> {
    const known = this._context.contentsModel;
    const now = await this._contents.get(this._context.path, { content: false, hash: true });
    if (known?.hash && now.hash) {
      return known.hash !== now.hash;
    }
    return known !== null && known.last_modified !== now.last_modified;
  }

  /** Without JupyterLab's own dialog about an error: the agent is told, and the person asked nothing. */
  private async _quietly(work: () => Promise<void>): Promise<void> {
    const context = this._context as { _handleError?: () => Promise<void> };
    context._handleError = () => Promise.resolve();
    try {
      await work();
    } finally {
      // What the class has is there again.
      delete context._handleError;
    }
  }

  private async _saveForPerson(): Promise<void> {
    // Where it cannot be together, JupyterLab asks what to keep.
    await this._takeFile().catch(() => undefined);
    await this._saveAll();
  }

  private async _saveAll(): Promise<void> {
    const before = this._file;
    const saved = this._held.content();
    const changes = this._held.changes();
    await this._save();
    if (this._file !== before) {
      // JupyterLab asked, and its person chose the file.
      return;
    }
    this._file = saved;
    if (this._held.changes() !== changes) {
      // What was typed while it was saved is not in the file, whatever JupyterLab takes it for.
      this._context.model.dirty = true;
    }
  }

  private _queue(work: () => Promise<void>): Promise<void> {
    const done = this._last.then(work);
    this._last = done.catch(() => undefined);
    return done;
  }

  private readonly _save: () => Promise<void>;
  private _last: Promise<void> = Promise.resolve();
  private _next: Promise<void> | null = null;
  private _isTaking = false;
}
