/** Outputs of a cell that an agent runs, written to the open cell. */

import type { YCodeCell } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';

import type { IOutputs, OutputChange } from './protocol';

/** A change of outputs: text appended to the last one, or all from an index on. */
export type Splice =
  { kind: 'text'; text: string } | { kind: 'from'; first: number; outputs: nbformat.IOutput[] };

function textOf(output: nbformat.IOutput): string {
  const text = output['text'] as string | string[] | undefined;
  return Array.isArray(text) ? text.join('') : (text ?? '');
}

/**
 * Combine changes into one splice.
 *
 * JupyterLab renders an inserted output as the last one, and appends text of any stream to the last
 * one. So only two splices are used: text appended to the last output, or all outputs replaced from
 * the first changed one on.
 *
 * @param count - The number of outputs.
 * @param present - Copies the outputs, which takes time in proportion to their size.
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
  const appended = changes.flatMap(change => ('append' in change ? [change.append] : []));
  if (appended.length === changes.length) {
    return { kind: 'from', first: count, outputs: appended };
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
 * Remove the trust of a cell, since outputs of an agent do not inherit it.
 *
 * Open views follow (`src/images/trust.ts`).
 */
export function distrust(cell: YCodeCell): void {
  if (cell.getMetadata('trusted') === true) {
    cell.deleteMetadata('trusted');
  }
}

/** Apply a request to the outputs of a running cell, if their number is the expected one. */
export function setOutputs(
  cell: YCodeCell,
  request: IOutputs
): { applied: boolean; count: number } {
  const count = cell.youtputs.length;
  if (request.expected !== null && request.expected !== count) {
    return { applied: false, count };
  }
  if (request.start || request.whole !== undefined) {
    distrust(cell);
  }
  if (request.start) {
    cell.setOutputs([]);
    cell.execution_count = null;
    cell.executionState = 'running';
  }
  const change = splice(cell.youtputs.length, () => cell.getOutputs(), request.changes ?? []);
  if (change?.kind === 'text') {
    cell.appendStreamOutput(cell.youtputs.length - 1, change.text);
  } else if (change !== null) {
    cell.updateOutputs(change.first, cell.youtputs.length, change.outputs);
  }
  if (request.whole !== undefined) {
    cell.updateOutputs(0, cell.youtputs.length, request.whole);
  }
  if (request.finish) {
    cell.execution_count = request.execution_count ?? null;
    cell.executionState = 'idle';
  }
  return { applied: true, count: cell.youtputs.length };
}
