/** Titles of calls, on their cards. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { numberOf } from '../common/position';
import { errorCode } from '../state/reduce';
import type { ICall, ITurn } from '../state/chat';
import { runsOf } from './runs';

/** The titles of a call before, while and after it is done. */
interface IPhrases {
  /** As a request: "add a cell". */
  ask: string;
  doing?: string;
  /** Default: the request. */
  done?: string;
}

/** Return the title of a call. */
export function describe(call: ICall, trans: TranslationBundle): string {
  const { ask, doing, done = upper(ask) } = phrasesOf(call, trans);
  switch (call.status) {
    case 'pending':
      return upper(ask);
    case 'running':
      return doing ?? upper(ask);
    case 'denied':
      return trans.__('Denied: %1', ask);
    case 'stopped':
      return trans.__('Stopped: %1', ask);
    case 'error':
      // A cell that raised was run; a tool that refused did nothing.
      return call.result === null || errorCode(call.result.structured) !== null
        ? trans.__('Failed: %1', ask)
        : done;
    case 'complete':
      return done;
  }
}

function phrasesOf(call: ICall, trans: TranslationBundle): IPhrases {
  const given = call.arguments;
  const index = indexOf(call);
  // The model's name of the cell (an id, an address) means nothing to a person.
  const cell = index === null ? trans.__('a cell') : trans.__('cell %1', numberOf(index));
  const path = text(given['notebook']) || text(given['path']);
  const name = text(given['name']);
  switch (call.tool) {
    case 'read_notebook':
    case 'list_cells':
    case 'read_file':
      return path
        ? { ask: trans.__('read %1', path), done: trans.__('Read %1', path) }
        : { ask: trans.__('read the notebook'), done: trans.__('Read the notebook') };
    case 'read_cell':
      return { ask: trans.__('read %1', cell), done: trans.__('Read %1', cell) };
    case 'use_notebook':
      return { ask: trans.__('open %1', path), done: trans.__('Opened %1', path) };
    case 'create_notebook':
      return { ask: trans.__('create %1', path), done: trans.__('Created %1', path) };
    case 'insert_cell':
      return { ask: trans.__('add a cell'), done: trans.__('Added a cell') };
    case 'insert_and_execute_cell':
      return {
        ask: trans.__('add and run a cell'),
        doing: trans.__('Adding and running a cell'),
        done: trans.__('Added and ran a cell')
      };
    case 'overwrite_cell':
    case 'edit_cell':
      return { ask: trans.__('change %1', cell), done: trans.__('Changed %1', cell) };
    case 'delete_cell':
      return { ask: trans.__('delete %1', cell), done: trans.__('Deleted %1', cell) };
    case 'move_cell':
      return { ask: trans.__('move %1', cell), done: trans.__('Moved %1', cell) };
    case 'execute_cell':
      return {
        ask: trans.__('run %1', cell),
        doing: trans.__('Running %1', cell),
        done: trans.__('Ran %1', cell)
      };
    case 'execute_cells':
      return {
        ask: trans.__('run cells'),
        doing: trans.__('Running cells'),
        done: trans.__('Ran cells')
      };
    case 'execute_ipython':
      return {
        ask: trans.__('run code'),
        doing: trans.__('Running code'),
        done: trans.__('Ran code')
      };
    case 'write_notebook':
      return path
        ? { ask: trans.__('write %1', path), done: trans.__('Wrote %1', path) }
        : { ask: trans.__('write the notebook'), done: trans.__('Wrote the notebook') };
    case 'search_cells':
      return { ask: trans.__('search the cells'), done: trans.__('Searched the cells') };
    case 'list_variables':
      return { ask: trans.__('list the variables'), done: trans.__('Listed the variables') };
    case 'inspect_variable':
      return { ask: trans.__('inspect %1', name), done: trans.__('Inspected %1', name) };
    default:
      // `interrupt_kernel` as "interrupt kernel".
      return { ask: call.tool.replaceAll('_', ' ') };
  }
}

/** Return the status of a running turn. */
export function doing(turn: ITurn, trans: TranslationBundle): string {
  if (turn.retry !== null) {
    const { attempt, attempts, reason } = turn.retry;
    return trans.__('Retrying (%1 of %2): %3', attempt, attempts, reason);
  }
  const item = turn.items.at(-1);
  if (item?.kind === 'call' && item.status === 'pending') {
    return trans.__('Waiting for your approval');
  }
  if (item?.kind === 'call' && item.status === 'running') {
    const { progress } = item;
    return progress ? progress.text : describe(item, trans);
  }
  return item?.kind === 'text' ? trans.__('Writing…') : trans.__('Thinking…');
}

/** Format seconds. */
export function duration(seconds: number): string {
  if (seconds < 60) {
    return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  }
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** Format a number of tokens. */
export function tokens(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  return count < 1e6 ? `${(count / 1000).toFixed(1)}k` : `${(count / 1e6).toFixed(1)}M`;
}

/** Format dollars. */
export function dollars(cost: number): string {
  if (cost < 0.0005) {
    return cost === 0 ? '$0' : '< $0.001';
  }
  return `$${cost.toFixed(cost < 0.1 ? 3 : 2)}`;
}

/** Return the index of the cell that a call is about; null if unknown. */
function indexOf({ arguments: given, changes, question, result }: ICall): number | null {
  const structured = result?.structured ?? {};
  const known = [
    changes.at(-1)?.index,
    question?.proposal.steps.at(-1)?.cell?.index,
    runsOf(structured).at(-1)?.index,
    structured['index'],
    given['cell'],
    given['index']
  ];
  const found = known.find((each): each is number => typeof each === 'number' && each >= 0);
  return found ?? null;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function upper(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
