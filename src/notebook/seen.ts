/** What a person looks at in a notebook, for messages of the chat and for agents elsewhere. */

import type { ICellModel } from '@jupyterlab/cells';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { SelectionAttachment } from '../api/events';
import type { ICellName, ISeen } from '../state/compose';
import { keysIn } from './keys';

/** Maximum number of characters of a selection that the server accepts. */
const MAX_SELECTION = 100_000;

/** Return the active cell and the selected cells of a notebook with this path. */
export function seenIn(panel: NotebookPanel, path: string): ISeen {
  const { content } = panel;
  const active = content.activeCell;
  const keys = keysIn(panel);
  const selected = keys.filter((_, index) => {
    const cell = content.widgets[index];
    return cell !== undefined && content.isSelectedOrActive(cell);
  });
  const index = content.activeCellIndex;
  return {
    notebook: path,
    cell: active && nameOf(index, keys[index] ?? '', active.model),
    selected: selected.length > 1 ? selected : []
  };
}

export function nameOf(index: number, id: string, { sharedModel }: ICellModel): ICellName {
  const line = sharedModel.source.split('\n').find(each => each.trim() !== '') ?? '';
  return { id, index, line: line.slice(0, 80) };
}

/** Return the text that is selected in an editor; null if it is blank or too long. */
export function selectionOf(
  editor: CodeEditor.IEditor,
  place: { cell: string } | { path: string }
): SelectionAttachment | null {
  const { start, end } = editor.getSelection();
  const [from, to] = [editor.getOffsetAt(start), editor.getOffsetAt(end)];
  const text = editor.model.sharedModel.getSource().slice(Math.min(from, to), Math.max(from, to));
  if (text.trim() === '' || text.length > MAX_SELECTION) {
    return null;
  }
  const first = Math.min(start.line, end.line) + 1;
  const lines = text.replace(/\n$/, '').split('\n').length;
  return { kind: 'selection', text, first_line: first, last_line: first + lines - 1, ...place };
}
