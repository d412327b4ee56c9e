/** What a person can point at in the notebook and the file that they see. */

import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';

import type { SelectionAttachment } from '../api/events';
import { lastErrorOf, outputsOf } from '../notebook/cellOutputs';
import { serverPath } from '../common/drives';
import { cellName, numberOf } from '../common/position';
import { selectionOf } from '../notebook/seen';
import type { IAttached } from '../state/compose';
import type { NotebookContext } from './notebook';

/** A completion of a `@` or a `/`. */
export interface IOption {
  label: string;
  /** A note next to the label. */
  note: string;
  /** The text that replaces the word. */
  text: string;
  attached?: IAttached;
}

/** The part of a file editor that is read here. */
interface IFileWidget {
  context: { path: string };
  content: { editor: CodeEditor.IEditor };
}

/** Return the outputs and errors of the cells. */
export function cellResults(notebook: NotebookContext, trans: TranslationBundle): IOption[] {
  const path = notebook.seen?.notebook;
  return notebook.keyed.flatMap(({ key, model }, index) => {
    if (path === undefined || (outputsOf(model)?.length ?? 0) === 0) {
      return [];
    }
    const error = lastErrorOf(model);
    const number = numberOf(index);
    const named = (label: string, text: string, attached: IAttached): IOption => ({
      label,
      note: model.sharedModel.source.trim().split('\n', 1)[0]?.slice(0, 80) ?? '',
      text,
      attached
    });
    const output = trans.__('Output of cell %1', number);
    const options = [
      named(output, `@output-${number} `, {
        label: output,
        notebook: path,
        attachment: { kind: 'output', cell: key }
      })
    ];
    if (error !== null) {
      const label = trans.__('Error of cell %1: %2', number, error.ename ?? 'error');
      const attachment = { kind: 'error', cell: key } as const;
      options.unshift(named(label, `@error-${number} `, { label, notebook: path, attachment }));
    }
    return options;
  });
}

/** Return the selected text of the active cell and of the file in front. */
export function selections(notebook: NotebookContext, trans: TranslationBundle): IOption[] {
  const found: IOption[] = [];
  const add = (place: string, attachment: SelectionAttachment | null, path?: string): void => {
    if (attachment !== null) {
      const { first_line: first, last_line: last } = attachment;
      const label =
        first === last
          ? trans.__('Selection, line %1 of %2', first, place)
          : trans.__('Selection, lines %1 to %2 of %3', first, last, place);
      const note = attachment.text.trim().slice(0, 80);
      const attached = { label, attachment, ...(path === undefined ? {} : { notebook: path }) };
      found.push({ label, note, text: '@selection ', attached });
    }
  };
  const { front, seen, activeEditor } = notebook;
  if (seen?.cell != null && activeEditor !== null) {
    const { id, index } = seen.cell;
    add(cellName(index, trans), selectionOf(activeEditor, { cell: id }), seen.notebook);
  }
  if (isFile(front)) {
    const path = serverPath(notebook.contents, front.context.path);
    if (path !== null) {
      add(path, selectionOf(front.content.editor, { path }));
    }
  }
  return found;
}

function isFile(widget: Widget | null): widget is Widget & IFileWidget {
  const content = (widget as Partial<IFileWidget> | null)?.content;
  return typeof content === 'object' && 'editor' in content;
}
