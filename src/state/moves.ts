/** What changes when a file or folder is renamed or deleted. Pure functions. */

import type { IAppState, IOpenChat, IPanelState } from './app';
import type { Item, ITurn } from './chat';

/** Return the path of a file after a move; null if it was deleted. */
export function pathAfter(path: string, from: string, to: string | null): string | null {
  return `${path}/`.startsWith(`${from}/`) ? to && to + path.slice(from.length) : path;
}

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
export function stateAfter(state: IAppState, after: After): IAppState {
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
  const panelAfter = (panel: IPanelState): IPanelState => {
    const { compose } = panel;
    const attached = mapped(compose.draft.attached, moved);
    return attached === compose.draft.attached
      ? panel
      : { ...panel, compose: { ...compose, draft: { ...compose.draft, attached } } };
  };
  const panels = Object.entries(state.panels).map(([key, panel]) => [key, panelAfter(panel)]);
  const open = Object.entries(state.open).map(([key, chat]) => [key, chatAfter(chat)]);
  return withValues(state, {
    chats: mapped(state.chats, moved),
    open: withValues(state.open, Object.fromEntries(open) as never),
    panels: withValues(state.panels, Object.fromEntries(panels) as never)
  });
}
