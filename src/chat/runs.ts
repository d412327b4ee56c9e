/** The runs of code in the result of a tool. */

import type { ICall } from '../state/chat';
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

/** Return the cell that a call changed or ran; null for none. */
export function touchedCell(call: ICall): { notebook: string; cell: string } | null {
  const change = call.changes.at(-1);
  if (change !== undefined) {
    return { notebook: change.notebook, cell: change.cell };
  }
  const { notebook, runs } = call.result?.structured ?? {};
  const last = Array.isArray(runs) ? (runs as { cell?: unknown }[]).at(-1) : undefined;
  return typeof notebook === 'string' && typeof last?.cell === 'string'
    ? { notebook, cell: last.cell }
    : null;
}
