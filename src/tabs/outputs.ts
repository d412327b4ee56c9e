/** Outputs of a cell that an agent runs, written to the open cell. */

import type { YCodeCell } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';

import type { IOutputs, OutputChange } from './protocol';

/** The outputs of a cell from an index on. */
interface ITail {
  first: number;
  outputs: nbformat.IOutput[];
}

function textOf(output: nbformat.IOutput): string {
  const text = output['text'] as string | string[] | undefined;
  return Array.isArray(text) ? text.join('') : (text ?? '');
}

function areOneStream(one: nbformat.IOutput, next?: nbformat.IOutput): boolean {
  return (
    one.output_type === 'stream' && next?.output_type === 'stream' && one['name'] === next['name']
  );
}

/** Return the kind of an output; none of a plain object, as jupyter-server-nbmodel adds all but streams. */
function kindOf(cell: YCodeCell, index: number): nbformat.IBaseOutput {
  const shared = cell.youtputs.get(index) as { get?(key: string): string };
  return { output_type: shared.get?.('output_type') ?? '', name: shared.get?.('name') ?? '' };
}

/** Join neighbours that are streams of one name. */
function joinStreams(outputs: readonly nbformat.IOutput[]): nbformat.IOutput[] {
  const joined: nbformat.IOutput[] = [];
  for (const output of outputs) {
    const last = joined.at(-1);
    if (last !== undefined && areOneStream(last, output)) {
      joined.splice(-1, 1, { ...last, text: textOf(last) + textOf(output) });
    } else {
      joined.push(output);
    }
  }
  return joined;
}

/**
 * Return the outputs from the first changed one on.
 *
 * @param count - The number of outputs.
 * @param present - Copies the outputs, which takes time in proportion to their size.
 */
export function tailOf(
  count: number,
  present: () => nbformat.IOutput[],
  changes: readonly OutputChange[]
): ITail {
  const tail: ITail = { first: count, outputs: [] };
  const reach = (index: number): number => {
    if (index < tail.first) {
      tail.outputs.unshift(...present().slice(index, tail.first));
      tail.first = index;
    }
    return index - tail.first;
  };
  for (const change of changes) {
    if ('append' in change) {
      tail.outputs.push(change.append);
    } else if ('clear' in change) {
      tail.first = 0;
      tail.outputs = [];
    } else if ('replace' in change) {
      tail.outputs[reach(change.replace)] = change.output;
    } else {
      const place = reach(change.stream);
      const output = tail.outputs[place];
      if (output !== undefined) {
        const text = textOf(output);
        const kept = text.slice(0, text.length - change.cut);
        tail.outputs[place] = { ...output, text: kept + change.text };
      }
    }
  }
  return tail;
}

/**
 * Replace the outputs of a cell from an index on, in one transaction.
 *
 * JupyterLab adds what is inserted as the last output, before it removes what Yjs lists after that.
 * It joins a stream to the last output if the one added last was a stream of this name, even if it
 * was removed since, and does so in the shared cell too: text that replaces text would be there twice, and not
 * be shown. So outputs are inserted after those that they replace, neighbours are joined, and where
 * the stream that was added last goes, all outputs are added again.
 */
export function replaceOutputs(
  cell: YCodeCell,
  first: number,
  outputs: readonly nbformat.IOutput[]
): void {
  const end = cell.youtputs.length;
  const isJoined = [first - 1, end - 1].some(
    index => index >= 0 && areOneStream(kindOf(cell, index), outputs[0])
  );
  if (first > 0 && (isJoined || (first < end && outputs.length === 0))) {
    replaceOutputs(cell, 0, [...cell.getOutputs().slice(0, first), ...outputs]);
    return;
  }
  cell.transact(() => {
    cell.updateOutputs(end, end, joinStreams(outputs));
    cell.updateOutputs(first, end);
  }, false);
}

/** Replace the end of the last output, a stream's text, in its place. */
function editText(cell: YCodeCell, cut: number, text: string): void {
  const last = cell.youtputs.length - 1;
  if (cut > 0) {
    // Not in the transaction of the insertion, which Yjs would list before it.
    const shared = cell.youtputs.get(last) as { get(key: 'text'): { length: number } };
    cell.removeStreamOutput(last, shared.get('text').length - cut);
  }
  cell.appendStreamOutput(last, text);
}

function applyChanges(cell: YCodeCell, changes: readonly OutputChange[]): void {
  const count = cell.youtputs.length;
  let edited = 0;
  for (const change of changes) {
    if (!('stream' in change) || change.stream !== count - 1) {
      break;
    }
    editText(cell, change.cut, change.text);
    edited++;
  }
  const { first, outputs } = tailOf(count, () => cell.getOutputs(), changes.slice(edited));
  if (first < count || outputs.length > 0) {
    replaceOutputs(cell, first, outputs);
  }
}

/**
 * Remove the trust of a cell, since outputs of an agent do not inherit it.
 *
 * Each write does this, since JupyterLab trusts a cell once a person clears its outputs. Open views
 * follow (`src/images/trust.ts`).
 */
export function distrust(cell: YCodeCell): void {
  if (cell.getMetadata('trusted') === true) {
    cell.deleteMetadata('trusted');
  }
}

/** Apply a request to the outputs of a running cell. */
export function setOutputs(cell: YCodeCell, request: IOutputs): void {
  if (request.start || request.whole !== undefined || request.changes !== undefined) {
    distrust(cell);
  }
  if (request.start) {
    cell.setOutputs([]);
    cell.execution_count = null;
    cell.executionState = 'running';
  }
  applyChanges(cell, request.changes ?? []);
  if (request.whole !== undefined) {
    replaceOutputs(cell, 0, request.whole);
  }
  if (request.finish) {
    cell.execution_count = request.execution_count ?? null;
    cell.executionState = 'idle';
  }
}
