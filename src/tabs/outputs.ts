/** Outputs of a cell that an agent runs, put into the open cell. */

import type { YCodeCell } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';

import type { IOutputs, OutputChange } from './protocol';

/** What becomes of outputs: text at the end of the last one, or all from some place on. */
export type Splice =
  { kind: 'text'; text: string } | { kind: 'from'; first: number; outputs: nbformat.IOutput[] };

function textOf(output: nbformat.IOutput): string {
  const text = output['text'] as string | string[] | undefined;
  return Array.isArray(text) ? text.join('') : (text ?? '');
}

/**
 * What changes come to.
 *
 * JupyterLab shows an output that is put between others as the last one, and text that is added to
 * any stream at the end of the last one. So just these two are done: text is added to the last
 * output, or everything from the first one that changes is set anew.
 *
 * @param count - how many outputs there are.
 * @param present - copies them, which takes as long as they are.
 */
export function splice(
  count: number,
  present: () => nbformat.IOutput[],
  changes: OutputChange[]
): Splice | null {
  const [only] = changes;
  if (changes.length === 0 || only === undefined) {
    return null;
  }
  if (changes.length === 1 && 'stream' in only && only.cut === 0 && only.stream === count - 1) {
    return { kind: 'text', text: only.text };
  }
  const news = changes.flatMap(change => ('append' in change ? [change.append] : []));
  if (news.length === changes.length) {
    return { kind: 'from', first: count, outputs: news };
  }
  const outputs = present();
  let first = outputs.length;
  for (const change of changes) {
    if ('append' in change) {
      outputs.push(change.append);
    } else if ('clear' in change) {
      outputs.length = first = 0;
    } else if ('replace' in change) {
      outputs[change.replace] = change.output;
      first = Math.min(first, change.replace);
    } else {
      const output = outputs[change.stream];
      if (output !== undefined) {
        const text = textOf(output);
        const kept = text.slice(0, text.length - change.cut);
        outputs[change.stream] = { ...output, text: kept + change.text };
        first = Math.min(first, change.stream);
      }
    }
  }
  return { kind: 'from', first, outputs: outputs.slice(first) };
}

/**
 * What an agent puts into a cell does not inherit the trust that a person gave to it.
 *
 * Open views follow that (`src/images/trust.ts`).
 */
export function distrust(cell: YCodeCell): void {
  if (cell.getMetadata('trusted') === true) {
    cell.deleteMetadata('trusted');
  }
}

/** Carries out what the server says of a cell that runs, if its outputs are as it expects. */
export function setOutputs(cell: YCodeCell, told: IOutputs): { applied: boolean; count: number } {
  const count = cell.youtputs.length;
  if (told.expected !== null && told.expected !== count) {
    return { applied: false, count };
  }
  if (told.start || told.whole !== undefined) {
    distrust(cell);
  }
  if (told.start) {
    cell.setOutputs([]);
    cell.execution_count = null;
    cell.executionState = 'running';
  }
  const change = splice(cell.youtputs.length, () => cell.getOutputs(), told.changes ?? []);
  if (change?.kind === 'text') {
    cell.appendStreamOutput(cell.youtputs.length - 1, change.text);
  } else if (change !== null) {
    cell.updateOutputs(change.first, cell.youtputs.length, change.outputs);
  }
  if (told.whole !== undefined) {
    cell.updateOutputs(0, cell.youtputs.length, told.whole);
  }
  if (told.finish) {
    cell.execution_count = told.execution_count ?? null;
    cell.executionState = 'idle';
  }
  return { applied: true, count: cell.youtputs.length };
}
