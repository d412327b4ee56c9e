import type { Cell } from '@jupyterlab/cells';

import { works } from './features';

/** Show a text in a cell's prompt. */
export function setPrompt(cell: Cell, prompt: string): void {
  if (works('prompts') !== false) {
    // The alternative is the model's execution state, which would change the document.
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    cell.setPrompt(prompt);
  }
}
