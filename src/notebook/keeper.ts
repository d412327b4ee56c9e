import type { IStateDB } from '@jupyterlab/statedb';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { type IKept, NOTHING_KEPT } from './marks';

const KEY = 'tk-ai-extension:kept';

/** Remembers what a person has kept in their notebooks. */
export interface IKeeper {
  load(path: string): Promise<IKept>;
  save(path: string, kept: IKept): Promise<void>;
  /** A notebook has another path now. */
  renamed(old: string, path: string): Promise<void>;
}

/** Remembers it in JupyterLab's state, which is the user's and outlives a reload. */
export class StateKeeper implements IKeeper {
  constructor(private readonly _state: IStateDB) {}

  async load(path: string): Promise<IKept> {
    const found = (await this._state.fetch(keyOf(path))) as Partial<IKept> | undefined;
    return { ...NOTHING_KEPT, ...found };
  }

  async save(path: string, kept: IKept): Promise<void> {
    await this._state.save(keyOf(path), kept as unknown as ReadonlyPartialJSONObject);
  }

  async renamed(old: string, path: string): Promise<void> {
    await this.save(path, await this.load(old));
    await this._state.remove(keyOf(old));
  }
}

function keyOf(path: string): string {
  return `${KEY}:${path}`;
}
