import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import type { PartialJSONValue } from '@lumino/coreutils';

import { Refusal } from './protocol';

type Context = DocumentRegistry.Context;

/**
 * Saves of one notebook, one after the other.
 *
 * Two saves at once end in a false "File Changed". So a person's saves and JupyterLab's own wait
 * here, too: `context.save` is this from now on.
 */
export class Saving {
  /**
   * @param changes - the number of the last change, which grows with each.
   * @param take - shows what is in the file.
   */
  constructor(
    private readonly _context: Context,
    private readonly _contents: Contents.IManager,
    private readonly _changes: () => number,
    private readonly _take: (content: PartialJSONValue) => void
  ) {
    const save = _context.save.bind(_context);
    this._save = save;
    _context.save = () => this._queue(() => this._saveAll());
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
        if (await this.isOutdated()) {
          throw new Refusal('file_changed', 'The file has changed on disk.');
        }
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

  /** Shows what is in the file, where others wrote it and nothing here is unsaved. */
  async refresh(): Promise<void> {
    await this._queue(async () => {
      if ((await this.isOutdated()) && !this._context.model.dirty) {
        await this._quietly(() => this._revert());
      }
    });
  }

  /** JupyterLab's own revert, but for what it does to the model: it would make every cell anew. */
  private async _revert(): Promise<void> {
    const model = this._context.model as { fromJSON?: (content: PartialJSONValue) => void };
    model.fromJSON = this._take;
    try {
      await this._context.revert();
    } finally {
      delete model.fromJSON;
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

  private async _saveAll(): Promise<void> {
    const changes = this._changes();
    await this._save();
    if (this._changes() !== changes) {
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
}
