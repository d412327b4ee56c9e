/** Titles of calls, on their cards. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { numberOf } from '../common/position';
import { errorCode } from '../state/reduce';
import type { ICall, ITurn } from '../state/chat';
import { runsOf } from './runs';

/** Return the title of a call: the tool's name in words, and what it is about. */
export function describe(call: ICall, trans: TranslationBundle): string {
  const title = titleOf(call);
  switch (call.status) {
    case 'pending':
    case 'running':
    case 'complete':
      return upper(title);
    case 'denied':
      return trans.__('Denied: %1', title);
    case 'stopped':
      return trans.__('Stopped: %1', title);
    case 'error':
      // A cell that raised was run; a tool that refused did nothing.
      return call.result === null || errorCode(call.result.structured) !== null
        ? trans.__('Failed: %1', title)
        : upper(title);
  }
}

/** Return `execute_cell` as "execute cell 3", and `read_file` as "read file a.csv". */
function titleOf(call: ICall): string {
  const { notebook, path, name } = call.arguments;
  const words = call.tool.replaceAll('_', ' ');
  const index = indexOf(call);
  // The model's name of the cell (an id, an address) means nothing to a person.
  const about = words.endsWith(' cell')
    ? index !== null && numberOf(index)
    : notebook || path || name;
  return typeof about === 'string' || typeof about === 'number' ? `${words} ${about}` : words;
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

function upper(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
