/** What is done when a file or folder was renamed or deleted: in a chunk that loads then. */

import type { AppStore, IAppState, IOpenChat } from '../state/app';
import type { Item, ITurn } from '../state/chat';
import { type IKept, NOTHING_KEPT } from '../state/keptChanges';

/** Returns the path of a file after a move; null if it was deleted. */
type After = (path: string) => string | null;

/** Return an object with other values; the same one if it has them. */
function withValues<T extends object>(each: T, some: Partial<T>): T {
  const isSame = Object.entries(some).every(([key, value]) => each[key as keyof T] === value);
  return isSame ? each : { ...each, ...some };
}

/** Return a list of changed items; the same one if no item is another one. */
function mapped<T>(list: readonly T[], change: (each: T) => T): readonly T[] {
  const found = list.map(change);
  return found.every((each, place) => each === list[place]) ? list : found;
}

/**
 * Return the state after a move: what is about a renamed notebook has its new path.
 *
 * All else stays the same object: views render again, and read what belongs to it, where it is another one.
 */
function stateAfter(state: IAppState, after: After): IAppState {
  const moved = <T extends object>(each: T): T => {
    const { notebook } = each as { notebook?: unknown };
    const path = typeof notebook === 'string' ? after(notebook) : null;
    return path === null ? each : withValues(each, { notebook: path } as never);
  };
  const itemAfter = (item: Item): Item =>
    item.kind === 'call'
      ? withValues(item, {
          changes: mapped(item.changes, moved),
          result:
            item.result && withValues(item.result, { structured: moved(item.result.structured) })
        })
      : item;
  const turnAfter = (turn: ITurn): ITurn =>
    withValues(moved(turn), {
      items: mapped(turn.items, itemAfter),
      restored: turn.restored && mapped(turn.restored, moved)
    });
  const chatAfter = (chat: IOpenChat): IOpenChat =>
    withValues(chat, {
      turns: mapped(chat.turns, turnAfter),
      journal:
        chat.journal && withValues(chat.journal, { changes: mapped(chat.journal.changes, moved) })
    });
  const open = Object.entries(state.open).map(([key, chat]) => [key, chatAfter(chat)]);
  return withValues(state, {
    chats: mapped(state.chats, moved),
    open: withValues(state.open, Object.fromEntries(open) as never)
  });
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
