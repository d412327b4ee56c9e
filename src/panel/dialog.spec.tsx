import { nullTranslator } from '@jupyterlab/translation';
import { act, fireEvent, screen } from '@testing-library/react';

import { showContent } from './dialog';

const trans = nullTranslator.load('tk-ai-extension');

/** Show a dialog with a field, in a page that is never idle. */
async function show(): Promise<{ closed: Promise<void>; idle: () => void }> {
  const idle: IdleRequestCallback[] = [];
  jest.spyOn(window, 'requestIdleCallback').mockImplementation(each => idle.push(each));
  let closed = Promise.resolve();
  await act(async () => {
    closed = showContent('Title', () => <input aria-label="Field" />, trans);
    await Promise.resolve();
  });
  return { closed, idle: () => idle.forEach(each => each({} as IdleDeadline)) };
}

afterEach(() => jest.restoreAllMocks());

test('a dialog has the focus as soon as it is shown, and Escape closes it', async () => {
  const { closed } = await show();
  expect(document.activeElement).toBe(screen.getByText('Close').closest('button'));
  fireEvent.keyDown(document.activeElement ?? document.body, { key: 'Escape' });
  await closed;
  expect(screen.queryByRole('dialog', { hidden: true })).toBeNull();
});

test('the focus stays where the person has put it when the page is idle', async () => {
  const { closed, idle } = await show();
  const field = screen.getByLabelText('Field');
  field.focus();
  await act(async () => {
    idle();
    await Promise.resolve();
  });
  expect(document.activeElement).toBe(field);
  fireEvent.keyDown(field, { key: 'Escape' });
  await closed;
});
