import type { IStateDB } from '@jupyterlab/statedb';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { BLANK, type IDraft, writtenIn } from './draft';

const KEY = 'tk-ai-extension:panel';

/** What outlives a reload of the page: which chat was shown, and what was written and not sent. */
interface IRemembered {
  /** The chat that the sidebar showed; null for a new one. */
  chat: string | null;
  /** Texts by chat; that of a new one under the empty name. */
  drafts: Record<string, string>;
}

/** Keeps drafts and the like in JupyterLab's state; what is attached to them, in the page alone. */
export class Memory {
  constructor(private readonly _state: Pick<IStateDB, 'fetch' | 'save'> | null) {
    // JupyterLab's state is there only after all plug-ins are: nobody may wait for it to begin.
    this.restored = this._restore();
  }

  /** What was remembered is there. */
  readonly restored: Promise<void>;

  /** The chat that the sidebar shows; null for a new one. */
  get chat(): string | null {
    return this._chat ?? null;
  }

  set chat(chat: string | null) {
    this._chat = chat;
    this._save();
  }

  /** What was being written in a chat; in a new one for null. */
  draft(chat: string | null): IDraft {
    return this._drafts.get(chat ?? '') ?? BLANK;
  }

  setDraft(chat: string | null, draft: IDraft): void {
    this._drafts.set(chat ?? '', draft);
    this._save();
  }

  private async _restore(): Promise<void> {
    const found = (await this._state?.fetch(KEY)) as Partial<IRemembered> | undefined;
    // What happened meanwhile counts.
    if (this._chat === undefined) {
      this._chat = found?.chat ?? null;
    }
    for (const [chat, text] of Object.entries(found?.drafts ?? {})) {
      if (!this._drafts.has(chat)) {
        this._drafts.set(chat, { ...BLANK, text });
      }
    }
  }

  private _save(): void {
    void this.restored.then(() => {
      const texts = [...this._drafts].map(([chat, draft]) => [chat, writtenIn(draft)] as const);
      const drafts = Object.fromEntries(texts.filter(([, text]) => text !== ''));
      const now: IRemembered = { chat: this.chat, drafts };
      return this._state?.save(KEY, now as unknown as ReadonlyPartialJSONObject);
    });
  }

  /** Undefined until it is known or was said. */
  private _chat: string | null | undefined;
  private readonly _drafts = new Map<string, IDraft>();
}
