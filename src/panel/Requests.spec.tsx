import type { JupyterFrontEnd } from '@jupyterlab/application';
import { act, cleanup, fireEvent, screen, within } from '@testing-library/react';

import type { PermissionInfo } from '../api/events';
import { AnswerGuard } from '../common/answerGuard';
import { request } from '../testing/events';
import { Stage } from '../testing/panel';
import { info } from '../testing/screen';
import { PanelManager } from './panelManager';

/** A request of the running turn of a chat. */
function ofChat(chat: string, id: string): PermissionInfo {
  return request(id, { author: 'Claude', interface: 'chat', chat, within_call: true });
}

const names = (): (string | null)[] =>
  [...document.querySelectorAll('.tk-Question')].map(card => card.getAttribute('aria-label'));

beforeEach(() => {
  jest.spyOn(AnswerGuard.prototype, 'armed', 'get').mockReturnValue(true);
});

afterEach(() => {
  cleanup();
  jest.restoreAllMocks();
});

describe('the pending approvals', () => {
  it('are those of the chat that is shown, then the others by their names, up to three', async () => {
    const stage = new Stage();
    stage.chats = [info('c', 'Sales by region'), info('d', 'Costs')];
    await stage.settle();
    const kernel = request('k', { interface: 'chat', chat: 'c' });
    await stage.waiting(kernel, ofChat('d', 'd'), ofChat('c', 'c'), request('m'));
    await stage.settle();
    expect(names()).toEqual([
      'claude-code 2.1 · code in a kernel: Change plan.ipynb?',
      'Claude · Costs: Change plan.ipynb?',
      'Claude · Sales by region: Change plan.ipynb?'
    ]);
    expect(screen.getByText('4 approvals pending')).toBeTruthy();
    act(() => stage.controller.open('c'));
    await stage.settle();
    expect(names()).toEqual([
      'Change plan.ipynb?',
      'claude-code 2.1 · code in a kernel: Change plan.ipynb?',
      'Claude · Costs: Change plan.ipynb?'
    ]);
  });

  it('are above the message box, announced, and answered', async () => {
    const stage = new Stage({ chats: [info('c', 'Sales')] });
    stage.chats = [info('c', 'Sales')];
    await stage.settle();
    await stage.requests({ kind: 'asked', permission: ofChat('c', 'p') });
    const asked = screen.getByRole('region', { name: 'Approvals' });
    const card = within(asked).getByRole('group', { name: 'Claude · Sales: Change plan.ipynb?' });
    expect(stage.node.querySelector('.tk-Announced')?.textContent).toBe(
      'Claude needs your approval.'
    );
    fireEvent.keyDown(card, { key: 'Enter' });
    await stage.settle();
    expect([stage.given, names()]).toEqual([[['p', 'once', undefined]], []]);
  });

  it('are shown by a command, in the panel that was used last', async () => {
    const stage = new Stage();
    const shell = { activateById: jest.fn() };
    const app = { shell } as unknown as JupyterFrontEnd;
    const manager = new PanelManager(app, stage.services, false);
    await stage.settle();
    expect(manager.withQuestion()).toBeNull();
    await stage.waiting(request('p'));
    expect(manager.withQuestion() === manager.side).toBe(true);
    expect(shell.activateById).toHaveBeenCalledWith('tk-ai-chat');
    act(() => manager.side.dispose());
  });
});
