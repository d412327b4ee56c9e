/** The variables of a notebook's kernel. */

import type { ServerConnection } from '@jupyterlab/services';

import { requestJson } from '../api/client';
import type { VariableList, VariablePreview } from '../api/events';

/**
 * List the variables of a notebook's kernel whose names contain a word.
 *
 * @throws ApiError - The kernel is busy, is not a Python kernel, or does not run.
 */
export function findVariables(
  settings: ServerConnection.ISettings,
  notebook: string,
  word: string
): Promise<VariableList> {
  const pattern = /^\w+$/.test(word) ? { pattern: `*${word}*` } : {};
  return requestJson(settings, 'POST', 'tools/list_variables', { notebook, ...pattern });
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
