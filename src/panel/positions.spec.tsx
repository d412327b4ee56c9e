import { cleanup, fireEvent, screen } from '@testing-library/react';

import { CALL, CHANGE, DONE, NET, RESULT } from '../testing/events';
import { Stage } from '../testing/panel';
import { unfold } from '../testing/screen';

const RAN = {
  ...RESULT,
  tool: 'execute_cells',
  structured: { runs: [0, 1].map(index => ({ status: 'ok', index, output: 'Printed.' })) }
} as const;

afterEach(cleanup);

/** A person's first cell is 1, wherever a cell is named. */
describe('the number of a cell', () => {
  it('begins at 1 in the chips', () => {
    new Stage();
    expect(screen.getByRole('button', { name: 'Remove Cell 1' })).toBeTruthy();
  });

  it('begins at 1 where a turn says what it changed', async () => {
    const stage = new Stage();
    stage.net = [NET];
    await stage.say('Add a cell.');
    await stage.happens(CALL, CHANGE, DONE);
    expect(screen.getByText('New cell 3')).toBeTruthy();
  });

  it('begins at 1 in what cells put out', async () => {
    const stage = new Stage();
    await stage.say('Run them.');
    await stage.happens({ ...CALL, tool: 'execute_cells' }, RAN, DONE);
    const card = stage.node.querySelector('.tk-Call details') as HTMLDetailsElement;
    unfold(card);
    await stage.settle();
    const titles = [...card.querySelectorAll('.tk-Run-title')].map(each => each.textContent);
    expect(titles).toEqual(['Cell 1', 'Cell 2']);
  });

  it('begins at 1 in a starter, which goes with the cell itself', async () => {
    const stage = new Stage({}, null, { id: 'y', index: 1, line: '1 / 0' });
    await stage.settle();
    fireEvent.click(screen.getByRole('button', { name: 'Fix the failing cell 2' }));
    await stage.settle();
    expect(stage.sent).toEqual([
      {
        message: 'Fix the failing cell 2',
        mode: 'ask',
        notebook: 'a.ipynb',
        active_cell: 'y'
      }
    ]);
  });
});
