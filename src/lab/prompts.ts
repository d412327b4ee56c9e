import type { Cell } from '@jupyterlab/cells';

/** Show a text in a cell's prompt. */
export function setPrompt(cell: Cell, prompt: string): void {
  // The state of the model, which is the other way, is part of the document: that would be changed.
  // eslint-disable-next-line @typescript-eslint/no-deprecated
  cell.setPrompt(prompt);
}
