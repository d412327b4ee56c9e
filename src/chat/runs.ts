/** The runs of code in the answer of a tool, as the server's tools describe them. */

import type { CellRun, Json } from '../api/events';

/** The runs of an answer; none where it has none. */
export function runsOf({ runs }: Json): readonly CellRun[] {
  return Array.isArray(runs) ? (runs as CellRun[]) : [];
}

/** What of a run's output is text: pictures and values are shown as what they are. */
export function textOf({ output = '', placeholders = [] }: CellRun): string {
  if (placeholders.length === 0) {
    return output;
  }
  const hidden = new Set(placeholders);
  return output
    .split('\n')
    .filter((_, place) => !hidden.has(place))
    .join('\n');
}
