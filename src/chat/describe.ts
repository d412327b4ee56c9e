/** Calls in words: what a person reads on the one line of a card. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ICall, ITurn } from './state';

/** Tools that have run something also where they end with its error. */
const RUNS: ReadonlySet<string> = new Set([
  'execute_cell',
  'execute_cells',
  'execute_ipython',
  'insert_and_execute_cell'
]);

/** What a call does, and to what. */
export function describe(call: ICall, trans: TranslationBundle): string {
  const given = call.arguments;
  const cell = cellOf(call);
  const path = text(given['notebook']) || text(given['path']);
  const busy = call.status === 'running' || call.status === 'pending';
  if (!RUNS.has(call.tool) && (call.status === 'error' || call.status === 'pending')) {
    // It was not done: only what it would be is named.
    return [sentence(call.tool), cell].join(' ').trim();
  }
  switch (call.tool) {
    case 'read_notebook':
    case 'list_cells':
      return path ? trans.__('Read %1', path) : trans.__('Read the notebook');
    case 'read_cell':
      return trans.__('Read cell %1', cell);
    case 'use_notebook':
      return trans.__('Opened %1', path);
    case 'create_notebook':
      return trans.__('Made %1', path);
    case 'insert_cell':
      return trans.__('Added a cell');
    case 'insert_and_execute_cell':
      return busy ? trans.__('Adding and running a cell') : trans.__('Added and ran a cell');
    case 'overwrite_cell':
    case 'edit_cell':
      return trans.__('Changed cell %1', cell);
    case 'delete_cell':
      return trans.__('Deleted cell %1', cell);
    case 'move_cell':
      return trans.__('Moved cell %1', cell);
    case 'execute_cell':
      return busy ? trans.__('Running cell %1', cell) : trans.__('Ran cell %1', cell);
    case 'execute_cells':
      return busy ? trans.__('Running cells') : trans.__('Ran cells');
    case 'execute_ipython':
      return busy ? trans.__('Running code') : trans.__('Ran code');
    case 'write_notebook':
      return path ? trans.__('Wrote %1', path) : trans.__('Wrote the notebook');
    case 'read_file':
      return trans.__('Read %1', path);
    case 'search_cells':
      return trans.__('Searched the cells');
    case 'list_variables':
      return trans.__('Looked at the variables');
    case 'inspect_variable':
      return trans.__('Looked at %1', text(given['name']));
    default:
      return sentence(call.tool);
  }
}

/** The code that a call is given, where it is given some. */
export function codeOf(call: ICall): string {
  for (const name of ['source', 'code', 'content', 'text', 'new', 'new_source']) {
    const value = call.arguments[name];
    if (typeof value === 'string' && value !== '') {
      return value;
    }
  }
  return '';
}

/** The cell that a call changed or ran, as a person may look for it; null where it is none. */
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

/** What Claude does at this moment, for the line below what it wrote. */
export function doing(turn: ITurn, trans: TranslationBundle): string {
  if (turn.retry !== null) {
    const { attempt, attempts, reason } = turn.retry;
    return trans.__('The model is asked again (%1 of %2): %3', attempt, attempts, reason);
  }
  const item = turn.items.at(-1);
  if (item?.kind === 'call' && item.status === 'pending') {
    return trans.__('Waits for your leave');
  }
  if (item?.kind === 'call' && item.status === 'running') {
    return item.progress || describe(item, trans);
  }
  return item?.kind === 'text' ? trans.__('Writes') : trans.__('Thinks');
}

/** Seconds as a person reads them. */
export function duration(seconds: number): string {
  if (seconds < 60) {
    return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  }
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** A number of tokens in a few characters. */
export function tokens(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  return count < 1e6 ? `${(count / 1000).toFixed(1)}k` : `${(count / 1e6).toFixed(1)}M`;
}

/** Dollars in a few characters. */
export function dollars(cost: number): string {
  if (cost < 0.0005) {
    return cost === 0 ? '$0' : '< $0.001';
  }
  return `$${cost.toFixed(cost < 0.1 ? 3 : 2)}`;
}

function cellOf(call: ICall): string {
  const given = call.arguments['cell'] ?? call.arguments['index'];
  return typeof given === 'string' ? given : typeof given === 'number' ? String(given) : '';
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** `interrupt_kernel` as `Interrupt kernel`. */
function sentence(name: string): string {
  const words = name.replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
