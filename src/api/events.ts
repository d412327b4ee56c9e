/** What the server sends: `models` is made of its own models. */

import type { Mode } from './models';

export type * from './models';

/** The permission modes, the strictest first. */
export const MODES: readonly Mode[] = ['plan', 'ask', 'edit', 'auto'];

/** How a turn ended. */
export type End = 'done' | 'stopped' | 'failed';

export type Json = Readonly<Record<string, unknown>>;
