/** Diffs and code as lines for display. */

import type { ProposalStep } from '../api/events';

export interface ILine {
  kind: 'added' | 'removed' | 'place' | 'same';
  text: string;
}

const KINDS: Partial<Record<string, ILine['kind']>> = {
  '+': 'added',
  '-': 'removed',
  '@': 'place',
  ' ': 'same'
};

/** Return the lines of a unified diff without file names. */
export function diffLines(diff: string): ILine[] {
  const lines = diff === '' ? [] : diff.replace(/\n$/, '').split('\n');
  return lines.map(line => {
    const kind = KINDS[line.slice(0, 1)];
    const text = kind === undefined || kind === 'place' ? line : line.slice(1);
    return { kind: kind ?? 'same', text };
  });
}

/** Return the lines of a step of a proposal, with hidden characters written out by the server. */
export function stepLines({ lines }: Pick<ProposalStep, 'lines'>): ILine[] {
  return lines.map(({ mark, text }) => ({ kind: KINDS[mark] ?? 'same', text }));
}

/** Count added and removed lines. */
export function tally(diffs: readonly string[]): { added: number; removed: number } {
  const lines = diffs.flatMap(diffLines);
  return {
    added: lines.filter(line => line.kind === 'added').length,
    removed: lines.filter(line => line.kind === 'removed').length
  };
}
