import { reduce } from './reduce';
import { EMPTY } from './chat';
import { MESSAGE, numbered, PLANNED, story } from '../testing/events';
import { BLANK, type IDraft, messageAgain, messageOf, settled } from './compose';

const SEEN = {
  notebook: 'a.ipynb',
  cell: { id: 'x', index: 0, line: '1' },
  selected: ['x', 'y']
};
const OPTIONS = { mode: 'ask', model: '', activeCell: true } as const;

describe('a message', () => {
  it('has the current notebook and cells', () => {
    expect(messageOf({ ...BLANK, text: 'Why?' }, SEEN, OPTIONS)).toEqual({
      message: 'Why?',
      mode: 'ask',
      notebook: 'a.ipynb',
      active_cell: 'x',
      selected_cells: ['x', 'y']
    });
  });

  it('leaves out removed context', () => {
    expect(messageOf({ ...BLANK, text: 'Why?', withoutNotebook: true }, SEEN, OPTIONS)).toEqual({
      message: 'Why?',
      mode: 'ask'
    });
    expect(
      messageOf({ ...BLANK, text: 'Why?', withoutCell: true }, SEEN, OPTIONS).active_cell
    ).toBeUndefined();
  });

  it('attaches no cell of another notebook', () => {
    const cell = { label: 'Cell 1', attachment: { kind: 'cell', cell: 'x' } } as const;
    const file = { label: 'b.csv', attachment: { kind: 'file', path: 'b.csv' } } as const;
    const draft = { ...BLANK, text: 'Why?', attached: [cell, file] };
    expect(messageOf(draft, null, OPTIONS).attachments).toEqual([
      { ...file.attachment, title: 'b.csv' }
    ]);
    const other = { ...draft, attached: [{ ...cell, notebook: 'b.ipynb' }, cell] };
    expect(messageOf(other, SEEN, OPTIONS).attachments).toEqual([
      { ...cell.attachment, title: 'Cell 1' }
    ]);
  });
});

describe('a message that is sent again', () => {
  it.each([{}, { text: 'Continue.' }, { again: 'undo' }] as const)(
    'is about the notebook of its turn, whatever that is called: %j',
    change => {
      const { turns } = reduce(EMPTY, [numbered(MESSAGE, 1, 't')]);
      const turn = turns[0] as (typeof turns)[0];
      expect(messageAgain(turn, null, change, { model: '' })).toMatchObject({ notebook_of: 't' });
    }
  );
});

describe('a draft', () => {
  const draft = { ...BLANK, text: 'Better' };
  const edit: IDraft = { ...draft, instead: { kind: 'edit', turn: 't' } };
  const revise: IDraft = { ...draft, instead: { kind: 'revise', turn: 't' } };
  const done = { kind: 'done', end: 'done', text: '' } as const;

  it('is an edit until its message is replaced', () => {
    const { turns } = reduce(EMPTY, story(MESSAGE, done));
    expect(settled(edit, turns)).toBe(edit);
    const replaced = reduce({ ...EMPTY, last: 3, turns }, [
      numbered({ ...MESSAGE, replaces: 't' }, 4, 'u')
    ]);
    expect(settled(edit, replaced.turns)).toEqual(draft);
    expect(settled(edit, [])).toEqual(draft);
  });

  it('is an answer to a plan while that is pending', () => {
    const made = reduce(EMPTY, story(MESSAGE, PLANNED));
    expect(settled(revise, made.turns)).toBe(revise);
    const events = [numbered(MESSAGE, 4, 'u')];
    expect(settled(revise, reduce(made, events).turns)).toEqual(draft);
  });
});
