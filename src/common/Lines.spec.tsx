import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, render, screen } from '@testing-library/react';

import { diffLines } from './diff';
import { Lines, MAX_DRAWN } from './Lines';

const trans = nullTranslator.load('tk-ai-extension');

afterEach(cleanup);

it('show a notice if there are too many to draw', () => {
  const diff = '+a\n'.repeat(MAX_DRAWN) + '-b';
  render(<Lines lines={diffLines(diff)} trans={trans} whole />);
  const lines = screen.getByRole('group', { name: 'Lines' }).textContent.split('\n');
  expect(lines).toHaveLength(MAX_DRAWN + 1);
  expect([lines[0], lines.at(-1)]).toEqual(['+ a', '− b']);
  expect(
    screen.getByText('The text is too long for the diff view. Plain lines are shown.')
  ).toBeTruthy();
});
