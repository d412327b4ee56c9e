/** The lines of a diff or of code in CodeMirror. */

import type { Extension } from '@codemirror/state';
import { Decoration, EditorView } from '@codemirror/view';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { ILine } from './diff';
import { fitted, readOnly, showMerge } from './mergeView';

/** A version of a text, and the numbers of its lines. */
export interface IVersion {
  text: string;
  /** Empty for a line `⋯`, which stands for omitted lines. */
  numbers: readonly string[];
}

const HEAD = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** Return the two versions of a text from the lines of a diff. */
export function versionsOf(lines: readonly ILine[]): { before: IVersion; now: IVersion } {
  const before: [string[], string[]] = [[], []];
  const now: [string[], string[]] = [[], []];
  let [old, current] = [1, 1];
  for (const [place, { kind, text }] of lines.entries()) {
    if (kind === 'place') {
      const head = HEAD.exec(text);
      [old, current] = [Number(head?.[1] ?? old), Number(head?.[2] ?? current)];
      if (place > 0) {
        for (const [texts, numbers] of [before, now]) {
          texts.push('⋯');
          numbers.push('');
        }
      }
      continue;
    }
    if (kind !== 'added') {
      before[0].push(text);
      before[1].push(String(old++));
    }
    if (kind !== 'removed') {
      now[0].push(text);
      now[1].push(String(current++));
    }
  }
  const version = ([texts, numbers]: [string[], string[]]): IVersion => ({
    text: texts.join('\n'),
    numbers
  });
  return { before: version(before), now: version(now) };
}

/**
 * Show the lines of a diff, or of code, in a node.
 *
 * @param language - The language extension for syntax highlighting.
 * @returns Removes the lines.
 */
export function showLines(
  node: HTMLElement,
  lines: readonly ILine[],
  language: Extension,
  trans: TranslationBundle
): () => void {
  const { before, now } = versionsOf(lines);
  const side = (name: string, { text, numbers }: IVersion, more: Extension = []) => ({
    doc: text,
    // Tab stops at the box around it, which scrolls.
    extensions: [readOnly(name, line => numbers[line - 1] ?? '', false), language, more]
  });
  const kinds = new Set(lines.map(line => line.kind).filter(kind => kind !== 'place'));
  const [kind] = kinds;
  if (kinds.size === 1 && kind !== undefined) {
    // Nothing to compare: code to run, or a new or deleted cell.
    const shown = kind === 'removed' ? before : now;
    const whole = kind === 'same' ? [] : wholly(kind === 'added' ? 'inserted' : 'deleted');
    const view = new EditorView({ parent: node, ...side(trans.__('Lines'), shown, whole) });
    return () => view.destroy();
  }
  // With a final newline, a difference in the last line is not merged with the line before.
  const ended = (name: string, { text, numbers }: IVersion) =>
    side(name, { text: `${text}\n`, numbers }, endAt(text.length + 1));
  const view = fitted(node, isWide =>
    showMerge(node, isWide, {
      before: ended(trans.__('Before'), before),
      now: ended(isWide ? trans.__('Now') : trans.__('Lines'), now),
      collapse: false
    })
  );
  return view.destroy;
}

/** Hide the empty line at the end of a text. */
function endAt(place: number): Extension {
  const line = Decoration.line({ class: 'cm-endOfDoc' });
  return EditorView.decorations.of(Decoration.set(line.range(place)));
}

/** Mark every line of a text. */
function wholly(what: 'inserted' | 'deleted'): Extension {
  const line = Decoration.line({ class: `cm-${what}Doc` });
  return EditorView.decorations.of(view =>
    Decoration.set(
      view.visibleRanges.flatMap(({ from, to }) => {
        const { doc } = view.state;
        const [first, last] = [doc.lineAt(from).number, doc.lineAt(to).number];
        return Array.from({ length: last - first + 1 }, (_, place) =>
          line.range(doc.line(first + place).from)
        );
      })
    )
  );
}
