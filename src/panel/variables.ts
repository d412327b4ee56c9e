/** The variables of a notebook's kernel. */

import type { ServerConnection } from '@jupyterlab/services';

import { requestJson } from '../api/client';
import type { VariableList, VariablePreview } from '../api/contextModels';

/** Milliseconds for which a list serves while a word is typed. */
const FRESH = 10_000;

/** The last list that did not fail. */
let last: { notebook: string; at: number; list: Promise<VariableList> } | null = null;

/**
 * List the variables of a notebook's kernel.
 *
 * @param again - Whether the kernel is asked in any case.
 */
function listVariables(
  settings: ServerConnection.ISettings,
  notebook: string,
  again: boolean
): Promise<VariableList> {
  const at = Date.now();
  if (again || last?.notebook !== notebook || at - last.at > FRESH) {
    const list = requestJson<VariableList>(settings, 'POST', 'tools/list_variables', { notebook });
    const asked = (last = { notebook, at, list });
    // The kernel was busy, say: it may not be when the next letter is typed.
    list.catch(() => (last = last === asked ? null : last));
  }
  return last.list;
}

/**
 * List the variables of a notebook's kernel; those whose names contain a word, if there are many.
 *
 * @throws ApiError - The kernel is busy, is not a Python kernel, or does not run.
 */
export async function findVariables(
  settings: ServerConnection.ISettings,
  notebook: string,
  word: string
): Promise<VariableList> {
  const list = await listVariables(settings, notebook, word === '');
  if ((list.more ?? 0) === 0 || !/^\w+$/.test(word)) {
    return list;
  }
  const body = { notebook, pattern: `*${word}*` };
  return requestJson(settings, 'POST', 'tools/list_variables', body);
}

/**
 * Return the columns and first rows of a variable that is a table.
 *
 * @throws ApiError - As `findVariables` does, or the variable is gone.
 */
export function previewVariable(
  settings: ServerConnection.ISettings,
  notebook: string,
  name: string
): Promise<VariablePreview> {
  const query = `notebook=${encodeURIComponent(notebook)}`;
  return requestJson(settings, 'GET', `variables/${encodeURIComponent(name)}?${query}`);
}
