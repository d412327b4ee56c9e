import { Notification } from '@jupyterlab/apputils';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';

import { ApiError } from '../api/client';
import { Stage } from '../testing/panel';
import { Problem } from './Problem';
import { ServicesProvider } from './services';

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

describe('a folder that cannot be trusted', () => {
  it('is reported', async () => {
    const shown = jest.spyOn(Notification, 'error').mockReturnValue('');
    const stage = new Stage();
    const problem = { code: 'folder_not_trusted', message: '', hint: '', retryable: false };
    const refused = { ...problem, message: 'Not here.', hint: 'Ask.' };
    stage.api.trustFolder = () => Promise.reject(new ApiError(refused));
    const retry = jest.fn();
    render(
      <ServicesProvider value={{ ...stage.services, controller: stage.controller }}>
        <Problem problem={problem} onRetry={retry} />
      </ServicesProvider>
    );
    fireEvent.click(screen.getByRole('button', { name: 'Trust this folder' }));
    await stage.settle();
    expect(shown.mock.calls.map(([message]) => message)).toEqual(['Not here. Ask.']);
    expect(retry).not.toHaveBeenCalled();
  });
});
