/** What a request for code says of a cell and its notebook. */

import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { lastErrorOf } from './cellOutputs';

/** Maximum number of cells above, and of characters of their sources; the server uses fewer. */
const MAX_ABOVE = 30;
const MAX_CHARACTERS = 40_000;

/** Where code is wanted. */
export interface ICodeContext {
  notebook: string;
  language: string;
  cell_type: string;
  above: { type: string; source: string }[];
}

/**
 * Return what surrounds a cell.
 *
 * @param notebook - The path of its notebook on the server.
 */
export function codeContext(panel: NotebookPanel, cell: Cell, notebook: string): ICodeContext {
  const { widgets, codeMimetype } = panel.content;
  const above: ICodeContext['above'] = [];
  let left = MAX_CHARACTERS;
  for (let place = widgets.indexOf(cell) - 1; place >= 0 && above.length < MAX_ABOVE; place--) {
    const { type, sharedModel } = (widgets[place] as Cell).model;
    const { source } = sharedModel;
    left -= source.length;
    if (left < 0) {
      break;
    }
    above.unshift({ type, source });
  }
  return {
    ...{ notebook, cell_type: cell.model.type, above },
    language: cell.model.type === 'code' ? languageName(panel, codeMimetype) : cell.model.type
  };
}

/** Return the name of the language of a notebook's code. */
function languageName({ context }: NotebookPanel, mimetype: string): string {
  const shared = context.model.sharedModel;
  const info = shared.getMetadata('language_info') as { name?: string } | undefined;
  return info?.name ?? mimetype.replace(/^.*\/(x-)?/, '');
}

/** Return the error in a cell's outputs as text; empty for none. */
export function errorText({ model }: Cell): string {
  const error = lastErrorOf(model);
  if (error === null) {
    return '';
  }
  const { ename = '', evalue = '', traceback = [] } = error;
  const text = [...traceback, `${ename}: ${evalue}`].join('\n');
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\x1b\[[\d;]*m/g, '').slice(-MAX_CHARACTERS);
}
