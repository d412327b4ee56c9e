import { YNotebook } from '@jupyter/ydoc';

import { expectWhole, TEXTS } from '../testing/texts';
import { editSource, textEdit } from './sourceEdit';

// What Yjs says of cells that are made here as JupyterLab makes them.
beforeEach(() => void jest.spyOn(console, 'warn').mockReturnValue());

describe('the edit of a text', () => {
  it.each([
    ['', 'a', 0, 0, 'a'],
    ['a', '', 0, 1, ''],
    ['aa', 'aaa', 2, 2, 'a'],
    ['abcabc', 'abc', 3, 6, ''],
    ['x = 1\ny = 2', 'x = 1\nz = 3\ny = 2', 6, 6, 'z = 3\n'],
    ['same', 'same', 4, 4, '']
  ])('from %j to %j replaces %d to %d by %j', (old, now, start, end, text) => {
    expect(textEdit(old, now)).toEqual({ start, end, text });
  });
});

describe('an edited source', () => {
  it('is the wanted one, where edits begin and end within surrogate pairs, too', () => {
    for (const old of TEXTS) {
      const cell = new YNotebook().addCell({ cell_type: 'code' });
      for (const now of TEXTS) {
        cell.setSource(old);
        editSource(cell, textEdit(old, now));
        expect(cell.source).toBe(now);
        expectWhole(cell.source);
      }
    }
  });

  it('is whole after several edits in one transaction', () => {
    const cell = new YNotebook().addCell({ cell_type: 'code', source: '🔴🔴' });
    cell.transact(() => {
      editSource(cell, { start: 3, end: 4, text: '\uDFE2' });
      editSource(cell, { start: 1, end: 2, text: '\uDFE2a' });
    });
    expect(cell.source).toBe('🟢a🟢');
  });
});
