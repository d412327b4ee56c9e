import { YCodeCell, YNotebook } from '@jupyter/ydoc';
import { CodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';

import { applySteps } from './applySteps';
import { replaceOutputs, setOutputs, tailOf } from './outputs';
import type { IOutputs, OutputChange } from './protocol';
import { VersionCounter } from './versionCounter';

const stream = (text: string, name = 'stdout'): nbformat.IOutput => ({
  output_type: 'stream',
  name,
  text
});
const error: nbformat.IOutput = { output_type: 'error', ename: 'E', evalue: '', traceback: [] };

describe('tailOf', () => {
  it('has all outputs from the first changed one on', () => {
    const tail = tailOf(2, () => [stream('a'), error], [
      { stream: 0, cut: 0, text: 'b' },
      { append: stream('c') }
    ]);
    expect(tail).toEqual({ first: 0, outputs: [stream('ab'), error, stream('c')] });
  });

  it('truncates overwritten text', () => {
    const tail = tailOf(1, () => [stream('10%')], [{ stream: 0, cut: 3, text: '20%' }]);
    expect(tail).toEqual({ first: 0, outputs: [stream('20%')] });
  });

  it('does not copy outputs if others are appended', () => {
    const present = jest.fn();
    const tail = tailOf(1, present, [{ append: stream('a') }, { stream: 1, cut: 0, text: 'b' }]);
    expect(tail).toEqual({ first: 1, outputs: [stream('ab')] });
    expect(present).not.toHaveBeenCalled();
  });

  it('starts again after a clear', () => {
    const tail = tailOf(2, () => [error, error], [{ clear: true }, { append: stream('a') }]);
    expect(tail).toEqual({ first: 0, outputs: [stream('a')] });
  });

  it('replaces an output in its place', () => {
    const tail = tailOf(2, () => [stream('a'), error], [{ replace: 0, output: stream('b') }]);
    expect(tail).toEqual({ first: 0, outputs: [stream('b'), error] });
  });

  it('is empty if nothing changes', () => {
    expect(tailOf(1, () => [error], [])).toEqual({ first: 1, outputs: [] });
  });
});

/** A notebook with one cell, and what JupyterLab shows of its outputs. */
function open(outputs: nbformat.IOutput[]): {
  notebook: YNotebook;
  cell: YCodeCell;
  shown: () => nbformat.IOutput[];
} {
  const notebook = new YNotebook();
  const cell = notebook.addCell({ cell_type: 'code', id: 'a' });
  if (!(cell instanceof YCodeCell)) {
    throw new Error('It is a code cell.');
  }
  // As jupyter-server-nbmodel adds them.
  for (const output of outputs) {
    const end = cell.youtputs.length;
    if (output === error) {
      cell.youtputs.push([output]);
    } else {
      cell.updateOutputs(end, end, [output]);
    }
  }
  const model = new CodeCellModel({ sharedModel: cell });
  return { notebook, cell, shown: () => model.outputs.toJSON() };
}

const kinds = [stream('a\n'), stream('b\n', 'stderr'), error];

/** All lists of at most this many outputs in which no streams of one name are neighbours. */
function lists(most: number): nbformat.IOutput[][] {
  const longer = (list: nbformat.IOutput[]): nbformat.IOutput[][] =>
    kinds.filter(kind => kind === error || kind !== list.at(-1)).map(kind => [...list, kind]);
  const all: nbformat.IOutput[][] = [[]];
  for (const list of all) {
    if (list.length < most) {
      all.push(...longer(list));
    }
  }
  return all;
}

/** Numbers from 0 to 1 that are the same in each run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    yield state / 2_147_483_648;
  }
}

/** Changes as those of a kernel: to the outputs, which are changed. */
function randomChanges(outputs: nbformat.IOutput[], next: () => number): OutputChange[] {
  const changes: OutputChange[] = [];
  for (let left = Math.floor(3 * next()) + 1; left > 0; left--) {
    const last = outputs.at(-1);
    const kind = next();
    if (kind < 0.4 && last?.output_type === 'stream') {
      const text = last['text'] as string;
      const cut = next() < 0.5 ? 0 : Math.floor(next() * text.length);
      const added = `${Math.floor(next() * 100)}%`;
      changes.push({ stream: outputs.length - 1, cut, text: added });
      outputs[outputs.length - 1] = { ...last, text: text.slice(0, text.length - cut) + added };
    } else if (kind < 0.5) {
      changes.push({ clear: true });
      outputs.length = 0;
    } else if (kind < 0.6 && outputs.includes(error)) {
      const replace = outputs.indexOf(error);
      const output = { ...error, evalue: String(next()) };
      changes.push({ replace, output });
      outputs[replace] = output;
    } else {
      const added = kinds[Math.floor(3 * next())] ?? error;
      if (added === error || added['name'] !== last?.['name']) {
        changes.push({ append: added });
        outputs.push(added);
      }
    }
  }
  return changes;
}

describe('an open cell', () => {
  // Yjs warns of each cell that JupyterLab makes outside a document.
  beforeEach(() => jest.spyOn(console, 'warn').mockImplementation());
  afterEach(() => jest.restoreAllMocks());

  it('has and shows the outputs of a file, whatever it had', () => {
    for (const before of lists(3)) {
      for (const after of lists(3)) {
        const { notebook, cell, shown } = open(before);
        applySteps(notebook, [{ do: 'set', id: 'a', outputs: after }]);
        expect([before, cell.getOutputs(), shown()]).toEqual([before, after, after]);
      }
    }
  });

  it('has and shows what replaces its last outputs, and what is appended to these', () => {
    for (const before of lists(3)) {
      for (const after of lists(2)) {
        for (const [first] of [...before.entries(), [before.length] as const]) {
          const { cell, shown } = open(before);
          replaceOutputs(cell, first, after);
          kinds.forEach(kind => replaceOutputs(cell, cell.youtputs.length, [kind]));
          const once = open([]);
          replaceOutputs(once.cell, 0, [...before.slice(0, first), ...after, ...kinds]);
          expect(cell.getOutputs()).toEqual(once.cell.getOutputs());
          expect(shown()).toEqual(cell.getOutputs());
        }
      }
    }
  });

  it('has and shows what is pushed to it, whatever that is', () => {
    for (let seed = 0; seed < 300; seed++) {
      const random = numbers(seed);
      const next = (): number => random.next().value;
      const { cell, shown } = open([]);
      const wanted: nbformat.IOutput[] = [];
      for (let step = 0; step < 12; step++) {
        const changes = randomChanges(wanted, next);
        setOutputs(cell, { method: 'outputs', cell: 'a', expected: null, changes });
        expect([seed, step, cell.getOutputs()]).toEqual([seed, step, wanted]);
        expect([seed, step, shown()]).toEqual([seed, step, wanted]);
      }
    }
  });

  it('joins neighbours that are one stream', () => {
    const { cell, shown } = open([stream('a\n')]);
    const changes = [{ append: stream('b\n') }];
    setOutputs(cell, { method: 'outputs', cell: 'a', expected: null, changes });
    expect([cell.getOutputs(), shown()]).toEqual([[stream('a\nb\n')], [stream('a\nb\n')]]);
  });

  it('has all outputs once if they are sent again', () => {
    const { cell, shown } = open([stream('a\n')]);
    const whole = [stream('a\nb\n'), error];
    setOutputs(cell, { method: 'outputs', cell: 'a', expected: null, whole });
    expect([cell.getOutputs(), shown()]).toEqual([whole, whole]);
  });

  it('refuses a change only if another writer has replaced the outputs', () => {
    for (let seed = 0; seed < 100; seed++) {
      const random = numbers(seed);
      const next = (): number => random.next().value;
      const opened = open([]);
      let { cell } = opened;
      const versions = new VersionCounter(opened.notebook);
      let version: number | null = null;
      const request = (more: Partial<IOutputs>): boolean => {
        const isExpected = version === null || versions.outputsAt('a') <= version;
        if (isExpected) {
          setOutputs(cell, { method: 'outputs', cell: 'a', expected: version, ...more });
        }
        version = versions.now;
        return isExpected;
      };
      request({ start: true });
      let wanted: nbformat.IOutput[] = [];
      for (let step = 0; step < 12; step++) {
        const kind = next();
        const isReplaced = kind < 0.3 && wanted.length > 0;
        if (isReplaced) {
          // By as many outputs of the same form, as after another run of the cell.
          cell.setOutputs([]);
          cell.setOutputs(wanted);
        } else if (kind < 0.5) {
          const copy = cell.toJSON();
          opened.notebook.transact(() => {
            opened.notebook.deleteCell(0);
            const copied = opened.notebook.insertCell(0, copy);
            cell = copied instanceof YCodeCell ? copied : cell;
          });
        }
        const before = [...wanted];
        const isApplied = request({ changes: randomChanges(wanted, next) });
        expect([seed, step, isApplied]).toEqual([seed, step, !isReplaced]);
        if (isReplaced) {
          expect([seed, step, cell.getOutputs()]).toEqual([seed, step, before]);
          wanted = [...kinds.slice(0, Math.floor(4 * next()))];
          expect([seed, step, request({ whole: wanted })]).toEqual([seed, step, true]);
        }
        expect([seed, step, cell.getOutputs()]).toEqual([seed, step, wanted]);
      }
    }
  });
});
