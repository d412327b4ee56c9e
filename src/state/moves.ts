/** What changes when a file or folder is renamed or deleted. Pure functions. */

import type { IAppState } from './app';

/** Return the path of a file after a move; null if it was deleted. */
export function pathAfter(path: string, from: string, to: string | null): string | null {
  return `${path}/`.startsWith(`${from}/`) ? to && to + path.slice(from.length) : path;
}

/** Return the state after a move: what is attached to drafts from a renamed notebook stays attached. */
export function stateAfter(state: IAppState, after: (path: string) => string | null): IAppState {
  const drafts = Object.entries(state.drafts).map(([name, draft]) => {
    const attached = draft.attached.map(each => {
      const { notebook } = each;
      return notebook === undefined ? each : { ...each, notebook: after(notebook) ?? notebook };
    });
    return [name, { ...draft, attached }];
  });
  return { ...state, drafts: Object.fromEntries(drafts) as IAppState['drafts'] };
}
