/** The runs of code in the result of a tool. */

import type { CellRun, Json } from '../api/events';

/** Return the runs of a result. */
export function runsOf({ runs }: Json): readonly CellRun[] {
  return Array.isArray(runs) ? (runs as CellRun[]) : [];
}

/** Return the text output of a run, without placeholders of images and values. */
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
