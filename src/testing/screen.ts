/** What a person finds on the screen and does there, for tests of the panel. */

import { configure, fireEvent, screen } from '@testing-library/react';

import type { ChatInfo } from '../api/events';

// Without the whole page in each message.
configure({ getElementError: message => new Error(message ?? '') });

/** Where a person writes. */
export const box = (): HTMLTextAreaElement => screen.getByRole('textbox', { name: 'Message' });

export const button = (name: string): HTMLElement => screen.getByRole('button', { name });

/** What goes with the message. */
export const goes = (): HTMLElement => screen.getByRole('group', { name: 'Included in the message' });

/** Types a text into the box, and puts the cursor at its end. */
export function type(text: string): void {
  fireEvent.change(box(), { target: { value: text, selectionStart: text.length } });
}

/** Opens what is folded, as a click on its summary does. */
export function unfold(details: HTMLDetailsElement): void {
  details.open = true;
  fireEvent(details, new Event('toggle'));
}

/** A chat as it is in the list. */
export function info(id: string, title: string): ChatInfo {
  return { id, title, notebook: 'a.ipynb', created: 0, updated: 0, busy: false };
}
