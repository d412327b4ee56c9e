/** Diffs and previews as the server writes them, line by line. Every line is shown, whatever it is. */

import { visible } from './visible';

export interface ILine {
  kind: 'added' | 'removed' | 'place' | 'title' | 'same';
  text: string;
}

const TITLE =
  /^(Insert (and run )?a|Change|Delete|Move|Then run:|Run cell|Run code:|Restart|Create|A \w+ cell:|Clear|Give|and )/;
const RUNS = /^(Then run:|Run cell|Run code:)/;

/** The lines of a diff without file names. */
export function diffLines(diff: string): ILine[] {
  return linesOf(diff).map(changed);
}

/**
 * The lines of what a call would do: titles, and below them a diff or the code that would run.
 *
 * Code is taken as it is: a line of it that begins with a minus was not removed.
 */
export function previewLines(preview: string): ILine[] {
  let runs = false;
  return linesOf(preview).map(line => {
    if (TITLE.test(line) && (line.endsWith(':') || line.endsWith('.'))) {
      runs = RUNS.test(line);
      return { kind: 'title', text: line };
    }
    return runs ? { kind: 'same', text: line } : changed(line);
  });
}

/** How many lines went and came. */
export function tally(diffs: readonly string[]): { added: number; removed: number } {
  const lines = diffs.flatMap(diffLines);
  return {
    added: lines.filter(line => line.kind === 'added').length,
    removed: lines.filter(line => line.kind === 'removed').length
  };
}

/** The lines, with what they would hide: nobody agrees to, or keeps, code that looks like other. */
function linesOf(text: string): string[] {
  return text === '' ? [] : visible(text).replace(/\n$/, '').split('\n');
}

function changed(line: string): ILine {
  switch (line[0]) {
    case '+':
      return { kind: 'added', text: line.slice(1) };
    case '-':
      return { kind: 'removed', text: line.slice(1) };
    case '@':
      return { kind: 'place', text: line };
    default:
      return { kind: 'same', text: line.replace(/^ /, '') };
  }
}
