/** Queries and actions on the screen, for tests of the panel. */

import { configure, fireEvent, screen } from '@testing-library/react';

import type { ChatInfo } from '../api/events';

configure({
  // Milliseconds. These tests get what others leave of the processors.
  asyncUtilTimeout: 60_000,
  // Error messages without the whole page.
  getElementError: message => new Error(message ?? '')
});

/** The message box. */
export const box = (): HTMLTextAreaElement => screen.getByRole('textbox', { name: 'Message' });

export const button = (name: string): HTMLElement => screen.getByRole('button', { name });

/** The chips of the context. */
export const goes = (): HTMLElement =>
  screen.getByRole('group', { name: 'Included in the message' });

/** Type a text into the message box, with the cursor at its end. */
export function type(text: string): void {
  fireEvent.change(box(), { target: { value: text, selectionStart: text.length } });
}

/** Open a `details` element as a click on its summary does. */
export function unfold(details: HTMLDetailsElement): void {
  details.open = true;
  fireEvent(details, new Event('toggle'));
}

/** A chat as it is in the list. */
export function info(id: string, title: string): ChatInfo {
  return { id, title, notebook: 'a.ipynb', created: 0, updated: 0, busy: false };
}

/** Open the menu of a button, and return the labels of its items. */
export function openMenu(name: string): string[] {
  fireEvent.click(button(name));
  const labels = document.querySelectorAll('.lm-Menu-itemLabel');
  return [...labels].map(({ textContent }) => textContent);
}

/** Choose an item of a button's menu. */
export function choose(name: string, item: string): void {
  const place = openMenu(name).indexOf(item);
  const menu = document.querySelector('.lm-Menu') as HTMLElement;
  const [down, enter] = [40, 13];
  for (let step = 0; step <= place; step++) {
    fireEvent.keyDown(menu, { keyCode: down });
  }
  fireEvent.keyDown(menu, { keyCode: enter });
}
