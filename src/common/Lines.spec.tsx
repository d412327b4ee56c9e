import { nullTranslator } from '@jupyterlab/translation';
import { act, cleanup, render, screen } from '@testing-library/react';

import { diffLines } from './diff';
import { type Draw, Lines, MAX_DRAWN } from './Lines';

const trans = nullTranslator.load('tk-ai-extension');

afterEach(cleanup);

/** What is shown of a diff. */
async function shown(diff: string, draw?: Draw): Promise<(string | null)[]> {
  const { container } = render(<Lines lines={diffLines(diff)} trans={trans} whole draw={draw} />);
  await act(() => Promise.resolve());
  return [...container.querySelectorAll('.tk-Line')].map(each => each.textContent);
}

it('shows where lines are left out, and no numbers of hunks', async () => {
  const diff = '@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -9 +9 @@\n-d';
  expect(await shown(diff)).toEqual([' a', '−b', '+c', ' ⋯', '−d']);
});

it('gives its place to what draws the lines, and takes that away with them', async () => {
  const removed = jest.fn();
  const draw = jest.fn((node: HTMLElement) => {
    node.textContent = 'drawn';
    return Promise.resolve(removed);
  });
  expect(await shown('+a', draw)).toEqual([]);
  expect(screen.getByRole('group', { name: 'Lines' }).textContent).toBe('drawn');
  cleanup();
  expect(removed).toHaveBeenCalledTimes(1);
});

it('stays where they cannot be drawn', async () => {
  expect(await shown('+a', () => Promise.resolve(null))).toEqual(['+a']);
});

it('says so where there are too many to be drawn at once', async () => {
  const draw = jest.fn();
  await shown('+a\n'.repeat(MAX_DRAWN) + '-b', draw);
  const lines = screen.getByRole('group', { name: 'Lines' }).textContent.split('\n');
  expect(lines).toHaveLength(MAX_DRAWN + 1);
  expect([lines[0], lines.at(-1)]).toEqual(['+ a', '− b']);
  expect(draw).not.toHaveBeenCalled();
  expect(screen.getByText('Shown as plain lines: it is too long for the diff view.')).toBeTruthy();
});
