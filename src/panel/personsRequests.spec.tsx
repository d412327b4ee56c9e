import { act, cleanup, fireEvent, screen } from '@testing-library/react';

import { Stage } from '../testing/panel';

const CHAT = { id: 'c', title: 'First', notebook: null, created: 0, updated: 0, busy: false };

afterEach(() => {
  cleanup();
  jest.restoreAllMocks();
});

describe('the title of a chat', () => {
  const press = (name: RegExp): boolean => fireEvent.click(screen.getByRole('button', { name }));
  const field = (): HTMLElement => screen.getByRole('textbox', { name: 'Title' });

  it.each(['blur', 'Enter'])('is not sent if nothing was typed (%s)', async how => {
    const stage = new Stage({ chats: [CHAT] }, 'c');
    stage.chats = [CHAT];
    await stage.settle();
    const leave = (): boolean =>
      how === 'blur' ? fireEvent.blur(field()) : fireEvent.keyDown(field(), { key: how });
    press(/First/);
    // Another window renames it.
    const chats = [{ ...CHAT, title: 'Second' }];
    act(() => stage.store.update(state => ({ ...state, chats })));
    leave();
    expect(stage.renamed).toEqual([]);
    press(/Second/);
    fireEvent.change(field(), { target: { value: 'Third' } });
    leave();
    expect(stage.renamed).toEqual([['c', 'Third']]);
  });
});
