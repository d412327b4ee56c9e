/** The diff of a marked cell with hunks that can be rejected. */

import { language } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { CombinedChange } from '../api/events';
import { MAX_DRAWN } from '../common/Lines';
import { fitted, readOnly, showMerge } from '../common/mergeView';
import { editSource } from '../common/sourceEdit';

/** Return the language extension of a cell's editor. */
export function languageOf(cell: Cell): Extension {
  return (cell.editor as CodeMirrorEditor | null)?.editor.state.facet(language) ?? [];
}

/**
 * Show the diff of a marked cell in a node.
 *
 * @returns A function that removes it; null if there is nothing to compare, or too much for the page.
 */
export function showDiff(
  node: HTMLElement,
  cell: Cell,
  { before }: CombinedChange,
  trans: TranslationBundle
): (() => void) | null {
  const shared = cell.model.sharedModel;
  if (before === null || before === shared.source) {
    return null;
  }
  if ([before, shared.source].some(text => text.split('\n').length > MAX_DRAWN)) {
    return null;
  }
  const button = (text?: string): HTMLButtonElement => {
    const made = document.createElement('button');
    made.type = 'button';
    made.className = 'tk-CellButton';
    made.title = trans.__('Undo this hunk');
    made.setAttribute('aria-label', made.title);
    made.textContent = text ?? made.title;
    return made;
  };
  // Rejecting a hunk edits the diff; the edit is applied to the cell as the person's own.
  let isOurs = false;
  const follow = EditorView.updateListener.of(({ changes, docChanged, startState }) => {
    if (!docChanged || startState.doc.toString() !== shared.source) {
      return;
    }
    let moved = 0;
    isOurs = true;
    shared.transact(() =>
      changes.iterChanges((from, to, _from, _to, inserted) => {
        const text = inserted.toString();
        editSource(shared, { start: from + moved, end: to + moved, text });
        moved += text.length - (to - from);
      })
    );
    isOurs = false;
  });
  const shown = fitted(node, isWide =>
    showMerge(node, isWide, {
      before: { doc: before, extensions: [readOnly(trans.__('Before')), languageOf(cell)] },
      now: {
        doc: shared.source,
        extensions: [readOnly(trans.__('Now')), languageOf(cell), follow]
      },
      collapse: true,
      revertControl: () => {
        const made = button('→');
        // CodeMirror reverts on mousedown only, which a key does not send.
        made.addEventListener('click', ({ detail }) => {
          if (detail === 0) {
            made.dispatchEvent(new MouseEvent('mousedown', { bubbles: true }));
          }
        });
        return made;
      },
      mergeControls: (type, action) => {
        if (type === 'accept') {
          // Accepting a hunk would remove it from the diff and keep nothing.
          return document.createElement('span');
        }
        const made = button();
        made.addEventListener('click', action);
        return made;
      }
    })
  );
  // Redraw after other edits of the cell, before a hunk can be rejected.
  const onChanged = (_: unknown, { sourceChange }: { sourceChange?: unknown }): void => {
    if (sourceChange !== undefined && !isOurs) {
      shown.redraw();
    }
  };
  shared.changed.connect(onChanged);
  return () => {
    shared.changed.disconnect(onChanged);
    shown.destroy();
  };
}
