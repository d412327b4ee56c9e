/** Diffs and code as lines that are shown. Every line is shown, whatever it is. */

import type { ProposalStep } from '../api/events';
import { visible } from './visible';

/** A piece of a line. */
export interface IPart {
  text: string;
  /** Whether the other version of the line does not have it. */
  changed: boolean;
}

export interface ILine {
  kind: 'added' | 'removed' | 'place' | 'same';
  text: string;
  /** What changed within the line, where it has another version. */
  parts?: readonly IPart[];
}

const KINDS: Partial<Record<string, ILine['kind']>> = {
  '+': 'added',
  '-': 'removed',
  '@': 'place',
  ' ': 'same'
};

/** Tokens of a line beyond which it is not compared word by word. */
const MAX_TOKENS = 400;

/** The lines of a unified diff without file names. */
export function diffLines(diff: string): ILine[] {
  const lines = diff === '' ? [] : diff.replace(/\n$/, '').split('\n');
  return compared(
    lines.map(line => {
      const kind = KINDS[line.slice(0, 1)];
      const text = kind === undefined || kind === 'place' ? line : line.slice(1);
      return { kind: kind ?? 'same', text: visible(text) };
    })
  );
}

/** The lines of a step of a proposal, verbatim. */
export function stepLines({ lines }: Pick<ProposalStep, 'lines'>): ILine[] {
  return compared(
    lines.map(({ mark, text }) => ({ kind: KINDS[mark] ?? 'same', text: visible(text) }))
  );
}

/** How many lines went and came. */
export function tally(diffs: readonly string[]): { added: number; removed: number } {
  const lines = diffs.flatMap(diffLines);
  return {
    added: lines.filter(line => line.kind === 'added').length,
    removed: lines.filter(line => line.kind === 'removed').length
  };
}

/** The lines, with what changed within those that have another version. */
function compared(lines: readonly ILine[]): ILine[] {
  const found = [...lines];
  let start = 0;
  while (start < found.length) {
    const removed = countOf(found, start, 'removed');
    const added = countOf(found, start + removed, 'added');
    for (let place = start; place < start + Math.min(removed, added); place++) {
      const [old, now] = [found[place] as ILine, found[place + removed] as ILine];
      const parts = wordDiff(old.text, now.text);
      if (parts !== null) {
        found[place] = { ...old, parts: parts.old };
        found[place + removed] = { ...now, parts: parts.now };
      }
    }
    start += Math.max(1, removed + added);
  }
  return found;
}

function countOf(lines: readonly ILine[], start: number, kind: ILine['kind']): number {
  let end = start;
  while (lines[end]?.kind === kind) {
    end++;
  }
  return end - start;
}

/** What changed between two versions of a line; null where they have little in common. */
export function wordDiff(old: string, now: string): { old: IPart[]; now: IPart[] } | null {
  const [one, other] = [tokensOf(old), tokensOf(now)];
  if (one.length > MAX_TOKENS || other.length > MAX_TOKENS) {
    return null;
  }
  const common = commonTokens(one, other);
  const kept = common.map(([place]) => (one[place] ?? '').trim().length).reduce((a, b) => a + b, 0);
  const most = Math.max(old.replace(/\s/g, '').length, now.replace(/\s/g, '').length);
  if (kept * 3 < most) {
    return null;
  }
  return {
    old: partsOf(one, new Set(common.map(([place]) => place))),
    now: partsOf(other, new Set(common.map(([, place]) => place)))
  };
}

/** Words, runs of spaces, and other characters one by one. */
function tokensOf(line: string): string[] {
  return line.match(/[\p{L}\p{M}\p{N}_]+|\s+|[^\p{L}\p{M}\p{N}_\s]/gu) ?? [];
}

/** A longest common subsequence: the places of its tokens in both. */
function commonTokens(one: readonly string[], other: readonly string[]): [number, number][] {
  const width = other.length + 1;
  const lengths = new Uint16Array((one.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = one.length - 1; row >= 0; row--) {
    for (let column = other.length - 1; column >= 0; column--) {
      lengths[row * width + column] =
        one[row] === other[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const found: [number, number][] = [];
  let [row, column] = [0, 0];
  while (row < one.length && column < other.length) {
    if (one[row] === other[column]) {
      found.push([row++, column++]);
    } else if (at(row + 1, column) >= at(row, column + 1)) {
      row++;
    } else {
      column++;
    }
  }
  return found;
}

function partsOf(tokens: readonly string[], kept: ReadonlySet<number>): IPart[] {
  const parts: IPart[] = [];
  tokens.forEach((text, place) => {
    const changed = !kept.has(place);
    const last = parts.at(-1);
    if (last?.changed === changed) {
      last.text += text;
    } else {
      parts.push({ text, changed });
    }
  });
  return parts;
}
