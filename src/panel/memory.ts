import type { IStateDB } from '@jupyterlab/statedb';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

const KEY = 'tk-ai-extension:panel';

/** What outlives a reload of the page: which chat was shown, and what was written and not sent. */
interface IRemembered {
  /** The chat that was shown; null for a new one. */
  chat: string | null;
  /** Drafts by chat; that of a new one under the empty name. */
  drafts: Record<string, string>;
}

/** Keeps drafts and the like in JupyterLab's state. */
export class Memory {
  constructor(private readonly _state: IStateDB | null) {
    // JupyterLab's state is there only after all plug-ins are: nobody may wait for it to begin.
    this.restored = this._restore();
  }

  /** What was remembered is there. */
  readonly restored: Promise<void>;

  get chat(): string | null {
    return this._now.chat;
  }

  set chat(chat: string | null) {
    this._save({ chat });
  }

  draft(chat: string | null): string {
    return this._now.drafts[chat ?? ''] ?? '';
  }

  setDraft(chat: string | null, text: string): void {
    const drafts = Object.entries(this._now.drafts).filter(([other]) => other !== (chat ?? ''));
    this._save({
      drafts: Object.fromEntries(text === '' ? drafts : [...drafts, [chat ?? '', text]])
    });
  }

  private async _restore(): Promise<void> {
    const found = (await this._state?.fetch(KEY)) as Partial<IRemembered> | undefined;
    // What happened meanwhile counts.
    this._now = { ...this._now, ...found, ...this._fresh };
  }

  private _save(some: Partial<IRemembered>): void {
    this._fresh = { ...this._fresh, ...some };
    this._now = { ...this._now, ...some };
    void this.restored.then(() =>
      this._state?.save(KEY, this._now as unknown as ReadonlyPartialJSONObject)
    );
  }

  private _now: IRemembered = { chat: null, drafts: {} };
  private _fresh: Partial<IRemembered> = {};
}
