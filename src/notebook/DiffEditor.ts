/** The diff of a cell in CodeMirror's merge view, in a chunk that loads when it is first needed. */

import { goToNextChunk, goToPreviousChunk, MergeView, unifiedMergeView } from '@codemirror/merge';
import { language } from '@codemirror/language';
import { EditorState, type Extension } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import { type CodeMirrorEditor, jupyterTheme } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';

import { beforeOf } from './before';
import type { IMark } from './marks';

/** Pixels from which the two sources stand side by side. */
export const WIDE = 700;

/** Characters of a source beyond which the plain lines stay. */
export const MAX_SOURCE = 400_000;

/** The merge view's own colours are for light themes. */
const colours = EditorView.theme({
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
  return source === null || source === now || now.length + source.length > MAX_SOURCE
    ? null
    : source;
}

/**
 * Show the diff of a marked cell in a node.
 *
 * @returns Removes it again; null where the plain lines have to do.
 */
export function showDiff(
  node: HTMLElement,
  cell: Cell,
  mark: IMark,
  trans: TranslationBundle
): (() => void) | null {
  const shared = cell.model.sharedModel;
  const before = sourceBefore(shared.source, mark);
  if (before === null) {
    return null;
  }
  let wide = node.clientWidth >= WIDE;
  let view: { destroy: () => void } | null = null;
  const button = (label: string, text: string): HTMLButtonElement => {
    const made = document.createElement('button');
    made.type = 'button';
    made.className = 'tk-CellButton';
    made.textContent = text;
    made.setAttribute('aria-label', label);
    return made;
  };
  const rejectLabel = (): string => trans.__('Reject this hunk');
  const state = cell.editor as CodeMirrorEditor | null;
  const extensions = (name: string): Extension[] => [
    jupyterTheme,
    colours,
    lineNumbers(),
    EditorView.lineWrapping,
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ tabindex: '0', 'aria-label': name }),
    keymap.of([
      { key: 'Alt-ArrowDown', run: goToNextChunk },
      { key: 'Alt-ArrowUp', run: goToPreviousChunk }
    ]),
    state?.editor.state.facet(language) ?? []
  ];
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
  const draw = (): void => {
    view?.destroy();
    node.classList.toggle('tk-mod-wide', wide);
    const [old, now] = [trans.__('Before'), trans.__('Now')];
    view = wide
      ? new MergeView({
          parent: node,
          a: { doc: before, extensions: extensions(old) },
          b: { doc: shared.source, extensions: [...extensions(now), follow] },
          revertControls: 'a-to-b',
          renderRevertControl: () => button(rejectLabel(), '→'),
          collapseUnchanged: {}
        })
      : new EditorView({
          parent: node,
          state: EditorState.create({
            doc: shared.source,
            extensions: [
              ...extensions(now),
              follow,
              unifiedMergeView({
                original: before,
                collapseUnchanged: {},
                mergeControls: (type, action) => {
                  const made =
                    type === 'reject'
                      ? button(rejectLabel(), trans.__('Reject'))
                      : button(trans.__('Accept this hunk'), trans.__('Accept'));
                  made.addEventListener('click', action);
                  return made;
                }
              })
            ]
          })
        });
  };
  const observer = new ResizeObserver(() => {
    if (node.clientWidth > 0 && node.clientWidth >= WIDE !== wide) {
      wide = !wide;
      draw();
    }
  });
  // What somebody else changes in the cell meanwhile is shown before anything can be rejected.
  const onChanged = (_: unknown, { sourceChange }: { sourceChange?: unknown }): void => {
    if (sourceChange !== undefined && !isOurs) {
      draw();
    }
  };
  draw();
  observer.observe(node);
  shared.changed.connect(onChanged);
  return () => {
    shared.changed.disconnect(onChanged);
    observer.disconnect();
    view?.destroy();
  };
}
