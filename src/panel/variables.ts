/** The variables of a notebook's kernel. */

import type { ServerConnection } from '@jupyterlab/services';

import { requestJson } from '../api/client';
import type { VariableList, VariablePreview } from '../api/contextModels';

/** The last list, which serves while a word is typed. */
let last: { notebook: string; list: Promise<VariableList> } | null = null;

/**
 * List the variables of a notebook's kernel.
 *
 * @param fresh - Whether the kernel is asked again.
 * @throws ApiError - The kernel is busy, is not a Python kernel, or does not run.
 */
export function listVariables(
  settings: ServerConnection.ISettings,
  notebook: string,
  fresh: boolean
): Promise<VariableList> {
  if (fresh || last?.notebook !== notebook) {
    const list = requestJson<VariableList>(settings, 'POST', 'tools/list_variables', { notebook });
    last = { notebook, list };
  }
  return last.list;
}

/**
 * Return the columns and first rows of a variable that is a table.
 *
 * @throws ApiError - As `listVariables` does, or the variable is gone.
 */
export function previewVariable(
  settings: ServerConnection.ISettings,
  notebook: string,
  name: string
): Promise<VariablePreview> {
  const query = `notebook=${encodeURIComponent(notebook)}`;
  return requestJson(settings, 'GET', `variables/${name}?${query}`);
}
