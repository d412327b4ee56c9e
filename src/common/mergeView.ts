/** Two versions of a text in CodeMirror's merge view, side by side or unified, depending on the width. */

import { goToNextChunk, goToPreviousChunk, MergeView, unifiedMergeView } from '@codemirror/merge';
import { countColumn, EditorState, type Extension, type Range } from '@codemirror/state';
import {
  Decoration,
  EditorView,
  highlightSpecialChars,
  keymap,
  lineNumbers
} from '@codemirror/view';
import { jupyterTheme } from '@jupyterlab/codemirror';

/** Minimum pixels for two versions side by side. */
export const WIDE = 700;

/** Limits of a comparison. Beyond them, text is shown as changed as a whole. */
const DIFF = { scanLimit: 500, timeout: 50 };

/** Indent the wrapped rest of a line like its beginning: in Python, indentation has a meaning. */
const HANGING = EditorView.decorations.of(({ state: { doc, tabSize }, visibleRanges }) => {
  const found = new Map<number, Range<Decoration>>();
  for (const { from, to } of visibleRanges) {
    for (let line = doc.lineAt(from); ; line = doc.line(line.number + 1)) {
      const columns = countColumn(/^[ \t]*/.exec(line.text)?.[0] ?? '', tabSize);
      if (columns > 0) {
        const style = `--tk-indentation: ${columns}ch`;
        found.set(line.from, Decoration.line({ attributes: { style } }).range(line.from));
      }
      if (line.to >= to) {
        break;
      }
    }
  }
  return Decoration.set([...found.values()], true);
});

/**
 * Return the extensions of a read-only view.
 *
 * @param name - The accessible name.
 * @param number - Formats the number of a line.
 * @param isStop - Whether Tab stops at it.
 */
export function readOnly(
  name: string,
  number: (line: number) => string = String,
  isStop = true
): Extension[] {
  return [
    jupyterTheme,
    highlightSpecialChars(),
    EditorView.editorAttributes.of({ class: 'tk-Merge' }),
    lineNumbers({ formatNumber: number }),
    EditorView.lineWrapping,
    HANGING,
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({
      tabindex: isStop ? '0' : '-1',
      'aria-label': name,
      'aria-readonly': 'true'
    }),
    keymap.of([
      { key: 'Alt-ArrowDown', run: goToNextChunk },
      { key: 'Alt-ArrowUp', run: goToPreviousChunk }
    ])
  ];
}

/** A text, and the extensions of its view. */
export interface ISide {
  doc: string;
  extensions: Extension;
}

export interface IMergeViewOptions {
  /** The version before. */
  before: ISide;
  now: ISide;
  /** Whether unchanged lines are collapsed. */
  collapse: boolean;
  /** Renders the button that rejects a hunk, side by side. Default: no button. */
  revertControl?: () => HTMLElement;
  /** Renders the buttons of a hunk in the unified view. */
  mergeControls?: (type: 'reject' | 'accept', action: (event: MouseEvent) => void) => HTMLElement;
}

/** Show two versions of a text in a node, side by side or unified. */
export function showMerge(
  node: HTMLElement,
  isWide: boolean,
  { before, now, collapse, revertControl, mergeControls }: IMergeViewOptions
): { destroy: () => void } {
  const folded = collapse ? { collapseUnchanged: {} } : {};
  return isWide
    ? new MergeView({
        parent: node,
        a: before,
        b: now,
        diffConfig: DIFF,
        ...folded,
        ...(revertControl && { revertControls: 'a-to-b', renderRevertControl: revertControl })
      })
    : new EditorView({
        parent: node,
        state: EditorState.create({
          doc: now.doc,
          extensions: [
            now.extensions,
            unifiedMergeView({
              original: before.doc,
              mergeControls: mergeControls ?? false,
              diffConfig: DIFF,
              ...folded
            })
          ]
        })
      });
}

/**
 * Draw a view in a node, and again when the node becomes wide or narrow.
 *
 * @returns Functions that redraw and remove it.
 */
export function fitted(
  node: HTMLElement,
  draw: (isWide: boolean) => { destroy: () => void }
): { redraw: () => void; destroy: () => void } {
  let isWide = node.clientWidth >= WIDE;
  let view: { destroy: () => void } | null = null;
  const redraw = (): void => {
    view?.destroy();
    view = draw(isWide);
  };
  const observer = new ResizeObserver(() => {
    if (node.clientWidth > 0 && node.clientWidth >= WIDE !== isWide) {
      isWide = !isWide;
      redraw();
    }
  });
  redraw();
  observer.observe(node);
  return {
    redraw,
    destroy: () => {
      observer.disconnect();
      view?.destroy();
    }
  };
}
