import type * as nbformat from '@jupyterlab/nbformat';

import { splice } from './outputs';

const stream = (text: string): nbformat.IOutput => ({
  output_type: 'stream',
  name: 'stdout',
  text
});
const error: nbformat.IOutput = { output_type: 'error', ename: 'E', evalue: '', traceback: [] };

describe('splice', () => {
  it('adds text to the last output', () => {
    const change = splice(2, () => [error, stream('a')], [{ stream: 1, cut: 0, text: 'b' }]);
    expect(change).toEqual({ kind: 'text', text: 'b' });
  });

  it('replaces all outputs from the first changed one on', () => {
    const change = splice(2, () => [stream('a'), error], [
      { stream: 0, cut: 0, text: 'b' },
      { append: stream('c') }
    ]);
    expect(change).toEqual({ kind: 'from', first: 0, outputs: [stream('ab'), error, stream('c')] });
  });

  it('cuts what was written over', () => {
    const change = splice(1, () => [stream('10%')], [{ stream: 0, cut: 3, text: '20%' }]);
    expect(change).toEqual({ kind: 'from', first: 0, outputs: [stream('20%')] });
  });

  it('appends outputs without copying those before', () => {
    const change = splice(1, () => [error], [
      { append: stream('a') },
      { stream: 1, cut: 0, text: 'b' }
    ]);
    expect(change).toEqual({ kind: 'from', first: 1, outputs: [stream('ab')] });
  });

  it('starts again after a clear', () => {
    const change = splice(2, () => [error, error], [{ clear: true }, { append: stream('a') }]);
    expect(change).toEqual({ kind: 'from', first: 0, outputs: [stream('a')] });
  });

  it('replaces an output in its place', () => {
    const change = splice(2, () => [stream('a'), error], [{ replace: 0, output: stream('b') }]);
    expect(change).toEqual({ kind: 'from', first: 0, outputs: [stream('b'), error] });
  });

  it('is nothing where nothing changes', () => {
    expect(splice(1, () => [error], [])).toBeNull();
  });
});
