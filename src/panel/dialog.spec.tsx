import { nullTranslator } from '@jupyterlab/translation';
import { act, fireEvent, screen } from '@testing-library/react';
import { type JSX, useState } from 'react';

import { showContent } from './dialog';
import type { IPanelContext } from './services';

const services = { trans: nullTranslator.load('tk-ai-extension') } as IPanelContext;

/** A field, and buttons that are gone when they are pressed: one in a section, one by itself. */
function Content(): JSX.Element {
  const [gone, setGone] = useState('');
  const button = (name: string): JSX.Element | null =>
    gone.includes(name) ? null : (
      <button type="button" onClick={() => setGone(gone + name)}>
        {name}
      </button>
    );
  return (
    <>
      <input aria-label="Field" />
      <section aria-label="Section" tabIndex={-1}>
        {button('One')}
      </section>
      {button('Two')}
    </>
  );
}

/** Show a dialog with a field, in a page that is never idle. */
async function show(): Promise<{ closed: Promise<void>; idle: () => void }> {
  const idle: IdleRequestCallback[] = [];
  jest.spyOn(window, 'requestIdleCallback').mockImplementation(each => idle.push(each));
  let closed = Promise.resolve();
  await act(async () => {
    closed = showContent(services, 'Title', () => <Content />);
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

test('Tab at the last button goes to the first element, which came after the dialog', async () => {
  const { closed } = await show();
  fireEvent.keyDown(document.activeElement ?? document.body, { key: 'Tab' });
  expect(document.activeElement).toBe(screen.getByLabelText('Field'));
  fireEvent.keyDown(document.activeElement ?? document.body, { key: 'Escape' });
  await closed;
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

test('the focus stays in it when a pressed button is removed, and Escape closes it', async () => {
  const { closed } = await show();
  const press = async (name: string): Promise<Element | null> => {
    screen.getByText(name).focus();
    await act(() => Promise.resolve(fireEvent.click(screen.getByText(name))));
    return document.activeElement;
  };
  expect(await press('One')).toBe(screen.getByRole('region', { hidden: true, name: 'Section' }));
  expect(await press('Two')).toBe(screen.getByText('Close').closest('button'));
  fireEvent.keyDown(document.activeElement ?? document.body, { key: 'Escape' });
  await closed;
});
