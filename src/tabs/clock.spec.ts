import { YCodeCell, YNotebook } from '@jupyter/ydoc';

import { Clock } from './clock';

describe('Clock', () => {
  const notebook = new YNotebook();
  const cell = notebook.addCell({ cell_type: 'code', id: 'a' });
  if (!(cell instanceof YCodeCell)) {
    throw new Error('It is a code cell.');
  }
  const clock = new Clock(notebook);

  it('numbers changes of a source, and those of outputs apart', () => {
    const before = clock.now;
    cell.setSource('2');
    expect(clock.isSince('a', before, false)).toBe(false);
    const changed = clock.now;
    cell.setOutputs([{ output_type: 'stream', name: 'stdout', text: 'x' }]);
    expect(clock.isSince('a', changed, false)).toBe(true);
    expect(clock.isSince('a', changed, true)).toBe(false);
  });

  it('hears of the outputs of what its person runs', () => {
    const before = clock.now;
    const output = { output_type: 'stream', name: 'stdout', text: 'y' };
    cell.updateOutputs(1, 1, [output], 'silent-change');
    const first = clock.at('a');
    expect(first).toBeGreaterThan(before);
    cell.appendStreamOutput(1, 'z', 'silent-change');
    expect(clock.at('a')).toBeGreaterThan(first);
    expect(clock.now).toBe(clock.at('a'));
  });

  it('hears no more of a cell that is gone', () => {
    notebook.deleteCell(0);
    const gone = clock.now;
    cell.updateOutputs(0, 2, [], 'silent-change');
    expect(clock.now).toBe(gone);
    expect(clock.at('a')).toBe(0);
  });
});
