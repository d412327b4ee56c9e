import { BLANK, messageOf } from './draft';

const SEEN = {
  notebook: 'a.ipynb',
  cell: { id: 'x', index: 0, line: '1' },
  selected: ['x', 'y']
};
const OPTIONS = { mode: 'ask', model: '', activeCell: true } as const;

describe('a message', () => {
  it('carries what the person looks at', () => {
    expect(messageOf({ ...BLANK, text: 'Why?' }, SEEN, OPTIONS)).toEqual({
      message: 'Why?',
      mode: 'ask',
      notebook: 'a.ipynb',
      active_cell: 'x',
      selected_cells: ['x', 'y']
    });
  });

  it('leaves out what they took away', () => {
    expect(messageOf({ ...BLANK, text: 'Why?', withoutNotebook: true }, SEEN, OPTIONS)).toEqual({
      message: 'Why?',
      mode: 'ask'
    });
    expect(
      messageOf({ ...BLANK, text: 'Why?', withoutCell: true }, SEEN, OPTIONS)
    ).not.toHaveProperty('active_cell');
  });

  it('attaches no cell of a notebook that does not go with it', () => {
    const cell = { label: 'Cell 0', attachment: { kind: 'cell', cell: 'x' } } as const;
    const file = { label: 'b.csv', attachment: { kind: 'file', path: 'b.csv' } } as const;
    const draft = { ...BLANK, text: 'Why?', attached: [cell, file] };
    expect(messageOf(draft, null, OPTIONS).attachments).toEqual([file.attachment]);
    const other = { ...draft, attached: [{ ...cell, notebook: 'b.ipynb' }, cell] };
    expect(messageOf(other, SEEN, OPTIONS).attachments).toEqual([cell.attachment]);
  });
});
