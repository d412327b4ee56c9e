/** Titles of calls, on their cards. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { numberOf } from '../common/position';
import { errorCode } from '../state/reduce';
import type { ICall, ITurn } from '../state/chat';
import { runsOf } from './runs';

/** Return the title of a call: what is asked, and once it is done, what was done. */
export function describe(call: ICall, trans: TranslationBundle): string {
  const [ask, done] = titlesOf(call, trans);
  switch (call.status) {
    case 'pending':
    case 'running':
      return upper(ask);
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

function titlesOf(call: ICall, trans: TranslationBundle): [ask: string, done: string] {
  const index = indexOf(call);
  // The model's name of the cell (an id, an address) means nothing to a person.
  const cell = index === null ? trans.__('a cell') : trans.__('cell %1', numberOf(index));
  const { notebook, path, name, file_path: file } = call.arguments;
  const inRoot = call.changes.at(-1)?.notebook;
  const given = [notebook, path, name, inRoot, file].find(
    each => typeof each === 'string' && each !== ''
  );
  const about = typeof given === 'string' ? given : trans.__('the notebook');
  switch (call.tool) {
    case 'read_notebook':
    case 'list_cells':
    case 'read_file':
    case 'Read':
      return [trans.__('read %1', about), trans.__('Read %1', about)];
    case 'read_cell':
      return [trans.__('read %1', cell), trans.__('Read %1', cell)];
    case 'use_notebook':
      return [trans.__('open %1', about), trans.__('Opened %1', about)];
    case 'create_notebook':
      return [trans.__('create %1', about), trans.__('Created %1', about)];
    case 'write_notebook':
      return [trans.__('write %1', about), trans.__('Wrote %1', about)];
    case 'insert_cell':
      return [trans.__('add a cell'), trans.__('Added a cell')];
    case 'insert_and_execute_cell':
      return [trans.__('add and run a cell'), trans.__('Added and ran a cell')];
    case 'Edit':
      return [trans.__('change %1', about), trans.__('Changed %1', about)];
    case 'Write':
      return [trans.__('write %1', about), trans.__('Wrote %1', about)];
    case 'overwrite_cell':
    case 'edit_cell':
      return [trans.__('change %1', cell), trans.__('Changed %1', cell)];
    case 'delete_cell':
      return [trans.__('delete %1', cell), trans.__('Deleted %1', cell)];
    case 'move_cell':
      return [trans.__('move %1', cell), trans.__('Moved %1', cell)];
    case 'execute_cell':
      return [trans.__('run %1', cell), trans.__('Ran %1', cell)];
    case 'execute_cells':
      return [trans.__('run cells'), trans.__('Ran cells')];
    case 'AskUserQuestion':
      return [trans.__('ask you'), trans.__('Asked you')];
    case 'execute_ipython':
      return [trans.__('run code'), trans.__('Ran code')];
    default: {
      // `interrupt_kernel` as "interrupt kernel".
      const words = call.tool.replaceAll('_', ' ');
      return [words, upper(words)];
    }
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
    return item.questions.length > 0
      ? trans.__('Waiting for your answer')
      : trans.__('Waiting for your approval');
  }
  if (item?.kind === 'call' && item.status === 'running') {
    return item.progress || describe(item, trans);
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

function upper(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
