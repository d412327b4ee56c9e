/** The diff of a marked cell, whose hunks can be rejected: part of the chunk of the merge view. */

import { language } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';

import { MAX_DRAWN } from '../parts/Lines';
import { fitted, readOnly, showMerge } from '../parts/mergeView';
import { beforeOf } from './before';
import type { IMark } from './marks';

/** What cells were before the oldest of the changes that stand: a person may reject a part of them. */
const known = new WeakMap<object, { entry: number; before: string }>();

/** Characters of a source beyond which the plain lines stay. */
export const MAX_SOURCE = 400_000;

/** What the source of a marked cell was before; null where the plain lines have to do. */
export function sourceBefore(now: string, { steps }: Pick<IMark, 'steps'>): string | null {
  let source: string | null = now;
  for (const { action, diff, truncated } of steps) {
    if (action === 'outputs' || action === 'move') {
      continue;
    }
    if (action !== 'replace' || truncated || source === null) {
      return null;
    }
    source = diff === '' ? source : beforeOf(source, diff);
  }
  return source;
}

/** Whether two versions are too long to be compared at once. */
function isTooLong(...versions: readonly string[]): boolean {
  return versions.some(text => text.split('\n').length > MAX_DRAWN || text.length > MAX_SOURCE);
}

/** What colours the source of a cell. */
export function languageOf(cell: Cell): Extension {
  return (cell.editor as CodeMirrorEditor | null)?.editor.state.facet(language) ?? [];
}

/**
 * Show the diff of a marked cell in a node.
 *
 * @returns Removes it again; where the plain lines have to do: null, or that it is too long.
 */
export function showDiff(
  node: HTMLElement,
  cell: Cell,
  mark: IMark,
  trans: TranslationBundle
): (() => void) | 'too long' | null {
  const shared = cell.model.sharedModel;
  const entry = mark.steps.at(-1)?.entry ?? 0;
  const remembered = known.get(shared);
  const before =
    remembered?.entry === entry ? remembered.before : sourceBefore(shared.source, mark);
  if (before === null || before === shared.source) {
    return null;
  }
  if (isTooLong(before, shared.source)) {
    return 'too long';
  }
  known.set(shared, { entry, before });
  const button = (label: string, text: string): HTMLButtonElement => {
    const made = document.createElement('button');
    made.type = 'button';
    made.className = 'tk-CellButton';
    made.textContent = text;
    made.setAttribute('aria-label', label);
    return made;
  };
  const rejectLabel = (): string => trans.__('Reject this hunk');
  // What a hunk's button does to the diff is done to the cell, as if the person had typed it.
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
        shared.updateSource(from + moved, to + moved, text);
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
      revertControl: () => button(rejectLabel(), '→'),
      mergeControls: (type, action) => {
        const made =
          type === 'reject'
            ? button(rejectLabel(), trans.__('Reject'))
            : button(trans.__('Accept this hunk'), trans.__('Accept'));
        made.addEventListener('click', action);
        return made;
      }
    })
  );
  // What somebody else changes in the cell meanwhile is shown before anything can be rejected.
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
