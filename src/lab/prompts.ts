import type { Cell } from '@jupyterlab/cells';

import { works } from './features';

/** Show a text in a cell's prompt. */
export function setPrompt(cell: Cell, prompt: string): void {
  if (works('prompts') !== false) {
    // The state of the model, which is the other way, is part of the document: that would be changed.
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    cell.setPrompt(prompt);
  }
}
