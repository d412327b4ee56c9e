import { YCodeCell, YNotebook } from '@jupyter/ydoc';

import { VersionCounter } from './versionCounter';

describe('VersionCounter', () => {
  const notebook = new YNotebook();
  const cell = notebook.addCell({ cell_type: 'code', id: 'a' });
  if (!(cell instanceof YCodeCell)) {
    throw new Error('It is a code cell.');
  }
  const versions = new VersionCounter(notebook);

  it('numbers changes of a source and of outputs', () => {
    const before = versions.now;
    cell.setSource('2');
    expect(versions.isUnchangedSince('a', before)).toBe(false);
    const changed = versions.now;
    expect(versions.isUnchangedSince('a', changed)).toBe(true);
    cell.setOutputs([{ output_type: 'stream', name: 'stdout', text: 'x' }]);
    expect(versions.isUnchangedSince('a', changed)).toBe(false);
  });

  it('counts the outputs of the person’s own runs', () => {
    const before = versions.now;
    const output = { output_type: 'stream', name: 'stdout', text: 'y' };
    cell.updateOutputs(1, 1, [output], 'silent-change');
    const first = versions.at('a');
    expect(first).toBeGreaterThan(before);
    cell.appendStreamOutput(1, 'z', 'silent-change');
    expect(versions.at('a')).toBeGreaterThan(first);
    expect(versions.now).toBe(versions.at('a'));
  });

  it('does not count changes of a deleted cell', () => {
    notebook.deleteCell(0);
    const gone = versions.now;
    cell.updateOutputs(0, 2, [], 'silent-change');
    expect(versions.now).toBe(gone);
    expect(versions.at('a')).toBe(0);
  });
});
