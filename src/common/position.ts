/** Positions of cells as a person counts them: the first is 1, as in JupyterLab's status bar. */

import type { TranslationBundle } from '@jupyterlab/translation';

/** The number on the screen of the cell at an index, which is from 0. */
export function numberOf(index: number): number {
  return index + 1;
}

/** A cell's name on the screen. */
export function cellName(index: number, trans: TranslationBundle): string {
  return trans.__('Cell %1', numberOf(index));
}
