/** Types of what the server sends. `models` is generated from the server's models. */

import type { Mode } from './models';

export type * from './models';

/** The permission modes, from the strictest. */
export const MODES: readonly Mode[] = ['plan', 'ask', 'edit', 'auto'];

/** How a turn ended. */
export type End = 'done' | 'stopped' | 'failed';

export type Json = Readonly<Record<string, unknown>>;
