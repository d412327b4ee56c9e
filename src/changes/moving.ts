/** What is done when a file or folder was renamed or deleted: in a chunk that loads then. */

import type { AppStore, IAppState } from '../state/app';
import { type IKept, NOTHING_KEPT } from '../state/keptChanges';

/** Returns the path of a file after a move; null if it was deleted. */
type After = (path: string) => string | null;

/** Return the state after a move: what is about a renamed notebook has its new path. */
function stateAfter({ chats, open, ...state }: IAppState, after: After): IAppState {
  const moved = <T extends { notebook: string | null }>(each: T): T => ({
    ...each,
    notebook: (each.notebook && after(each.notebook)) ?? each.notebook
  });
  const chatsOpen = Object.entries(open).map(([key, { turns, journal, ...chat }]) => [
    key,
    {
      ...chat,
      turns: turns.map(turn => ({
        ...moved(turn),
        items: turn.items.map(item =>
          item.kind === 'call' ? { ...item, changes: item.changes.map(moved) } : item
        )
      })),
      journal: journal && { ...journal, changes: journal.changes.map(moved) }
    }
  ]);
  return { ...state, chats: chats.map(moved), open: Object.fromEntries(chatsOpen) as never };
}

/**
 * Carry out a move. What was kept of another notebook at the new path is forgotten.
 *
 * @param path - The new path of the file or folder; null if it was deleted.
 * @param entries - What is stored of all notebooks, by their paths.
 * @param load - Loads what was kept of a notebook.
 * @param replace - Replaces what was kept of a notebook.
 */
export async function carryOut(
  path: string | null,
  after: After,
  entries: Promise<[path: string, kept: unknown][]>,
  store: AppStore,
  load: (path: string) => Promise<IKept>,
  replace: (path: string, kept: IKept) => Promise<void>
): Promise<void> {
  store.update(state => stateAfter(state, after));
  const names = [...(await entries).map(([name]) => name), ...Object.keys(store.state.kept)];
  const kept = new Map<string, IKept>();
  for (const name of names) {
    if (after(name) !== name || (path !== null && `${name}/`.startsWith(`${path}/`))) {
      kept.set(name, NOTHING_KEPT);
    }
  }
  for (const name of names) {
    const target = after(name);
    if (target !== null && target !== name) {
      kept.set(target, await load(name));
    }
  }
  for (const [name, each] of kept) {
    await replace(name, each);
  }
}
