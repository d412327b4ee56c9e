/**
 * Two versions of a text in CodeMirror's merge view, side by side or unified, depending on the width.
 * It is in a chunk that is loaded when it is first needed.
 */

import { goToNextChunk, goToPreviousChunk, MergeView, unifiedMergeView } from '@codemirror/merge';
import { EditorState, type Extension } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import { jupyterTheme } from '@jupyterlab/codemirror';

/** Minimum pixels for two versions side by side. */
export const WIDE = 700;

/** Limits of a comparison. Beyond them, text is shown as changed as a whole. */
const DIFF = { scanLimit: 500, timeout: 50 };

const tint = (colour: 'error' | 'success', percent: number): string =>
  `color-mix(in srgb, var(--jp-${colour}-color1) ${percent}%, transparent)`;

const signed = (sign: string): Record<string, string> => ({
  content: `'${sign}'`,
  position: 'absolute',
  insetInlineStart: '4px',
  fontWeight: '700'
});

/** Theme of the merge view, whose own colors are for light themes and have no signs. */
const colours = EditorView.theme({
  '& .cm-content': { padding: '0' },
  // A deleted line is within a line, except in the unified view.
  '& .cm-line, & .cm-deletedChunk .cm-deletedLine': {
    position: 'relative',
    paddingInlineStart: '18px'
  },
  '& .cm-deletedChunk': { paddingInlineStart: '0' },
  '& .cm-endOfDoc': { height: '0', overflow: 'hidden' },
  '&.cm-merge-b .cm-changedLine, & .cm-insertedDoc': { background: tint('success', 18) },
  '&.cm-merge-a .cm-changedLine, & .cm-deletedChunk, & .cm-deletedDoc': {
    background: tint('error', 16)
  },
  '&.cm-merge-b .cm-changedLine::before, & .cm-insertedDoc::before': signed('+'),
  '&.cm-merge-a .cm-changedLine::before, & .cm-deletedChunk .cm-deletedLine::before, & .cm-deletedDoc::before':
    signed('−'),
  '&.cm-merge-b .cm-changedText': { background: tint('success', 38), textDecoration: 'underline' },
  '&.cm-merge-a .cm-changedText, & .cm-deletedChunk .cm-deletedText': {
    background: tint('error', 34),
    textDecoration: 'line-through'
  },
  '& .cm-collapsedLines': {
    background: 'var(--jp-layout-color2)',
    color: 'var(--jp-ui-font-color2)'
  },
  '& .cm-chunkButtons button.tk-CellButton': {
    background: 'var(--jp-layout-color1)',
    border: 'var(--jp-border-width) solid var(--jp-border-color1)',
    color: 'var(--jp-ui-font-color1)'
  }
});

/**
 * Return the extensions of a read-only view.
 *
 * @param name - The accessible name.
 * @param number - Formats the number of a line.
 */
export function readOnly(name: string, number: (line: number) => string = String): Extension[] {
  return [
    jupyterTheme,
    colours,
    lineNumbers({ formatNumber: number }),
    EditorView.lineWrapping,
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({
      tabindex: '0',
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
