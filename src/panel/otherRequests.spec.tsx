import type { JupyterFrontEnd } from '@jupyterlab/application';
import { act, cleanup, fireEvent, screen, within } from '@testing-library/react';

import type { PermissionInfo } from '../api/events';
import { AnswerGuard } from '../common/answerGuard';
import { CALL, DONE, MESSAGE, numbered, type Payload, PROPOSAL, request } from '../testing/events';
import { Stage } from '../testing/panel';
import { box, choose, info } from '../testing/screen';
import { PanelManager } from './panelManager';

const ASKS = {
  kind: 'permission',
  call: 'k',
  id: 'p',
  tool: 'insert_cell',
  effect: 'WRITE',
  notebook: 'a.ipynb',
  preview: '',
  proposal: PROPOSAL,
  answers: ['once', 'deny']
} as const;

const asking: Payload[] = [MESSAGE, { kind: 'began' }, CALL, ASKS];

/** The request of the running turn of a chat. */
function ofChat(chat: string, id = 'p'): PermissionInfo {
  return request(id, { author: 'Claude', interface: 'chat', chat, within_call: true });
}

/** The cards above the message box, and in the transcript. */
const cards = (): HTMLElement[] => [
  ...document.querySelectorAll<HTMLElement>('.tk-Asked .tk-Question')
];
const inTranscript = (): HTMLElement[] => [
  ...document.querySelectorAll<HTMLElement>('.tk-Transcript .tk-Question')
];

/** A panel with a new chat, on a server whose chat `c` asks. */
async function started(): Promise<Stage> {
  const stage = new Stage({ chats: [info('c', 'Sales by region')] });
  stage.chats = [info('c', 'Sales by region')];
  stage.past = asking.map((payload, place) => numbered(payload, place + 1));
  await stage.settle();
  return stage;
}

beforeEach(() => {
  jest.spyOn(AnswerGuard.prototype, 'armed', 'get').mockReturnValue(true);
});

afterEach(() => {
  cleanup();
  jest.restoreAllMocks();
});

describe('an idle chat', () => {
  it('shows the turn and the request that another window, a cell or a terminal begins', async () => {
    const stage = new Stage();
    stage.chats = [info('c', 'Sales')];
    stage.past = [numbered(MESSAGE, 1, 'before'), numbered(DONE, 2, 'before')];
    act(() => stage.controller.open('c'));
    await stage.settle();
    const publish = (payload: Payload, number: number): void => {
      const event = numbered(payload, number, 'cell');
      stage.server.publish({ chat: 'c' }, event, number);
    };
    await stage.requests({ kind: 'asked', permission: ofChat('c') });
    asking.forEach((payload, place) => publish(payload, place + 3));
    await stage.settle();
    expect([inTranscript().length, cards().length]).toEqual([1, 0]);
    expect(stage.node.querySelector('.tk-Announced')?.textContent).toBe(
      'Claude needs your approval.'
    );
    // Both messages are there: the pencil and Try again act on what is seen.
    expect(screen.getAllByRole('group', { name: 'Message' })).toHaveLength(2);
    fireEvent.keyDown(inTranscript()[0] as HTMLElement, { key: 'Enter' });
    await stage.settle();
    expect(stage.given).toEqual([['p', 'once', undefined]]);
  });
});

describe('a request of a chat that is not open', () => {
  it('has the title of a chat that another window began', async () => {
    const stage = new Stage();
    await stage.settle();
    stage.chats = [info('c', 'Sales by region')];
    await stage.requests({ kind: 'asked', permission: ofChat('c') });
    await stage.settle();
    screen.getByRole('group', { name: 'Claude · Sales by region: Change plan.ipynb?' });
  });

  it('is above the message box with the title of its chat, announced, and answered', async () => {
    const stage = await started();
    await stage.requests({ kind: 'asked', permission: ofChat('c') });
    const asked = screen.getByRole('region', { name: 'Approvals for other agents' });
    const name = 'Claude · Sales by region: Change plan.ipynb?';
    const card = within(asked).getByRole('group', { name });
    expect(stage.node.querySelector('.tk-Announced')?.textContent).toBe(
      'Claude needs your approval.'
    );
    fireEvent.keyDown(card, { key: 'Enter' });
    await stage.settle();
    expect([stage.given, cards()]).toEqual([[['p', 'once', undefined]], []]);
  });

  it('moves into the transcript when the chat is opened', async () => {
    const stage = await started();
    await stage.waiting(ofChat('c'));
    expect([inTranscript().length, cards().length]).toEqual([0, 1]);
    act(() => stage.controller.open('c'));
    await stage.settle();
    expect([inTranscript().length, cards().length]).toEqual([1, 0]);
  });

  it('leaves its note in its own chat', async () => {
    const stage = await started();
    await stage.waiting(ofChat('c'));
    choose('More answers', 'Deny with a note…');
    const note = screen.getByRole('textbox', { name: 'Reason, or what to do instead' });
    fireEvent.change(note, { target: { value: 'Use y' } });
    await stage.requests({ kind: 'settled', id: 'p', outcome: 'expired' });
    expect([box().value, stage.store.state.drafts['c']?.text]).toEqual(['', 'Use y']);
  });

  it('is shown once, whichever chats are open', async () => {
    const stage = new Stage();
    const [ids, chats] = [
      ['a', 'b', 'k', 'm'],
      ['a', 'b', null]
    ];
    const all: Record<string, PermissionInfo> = {
      a: ofChat('a', 'a'),
      b: ofChat('b', 'b'),
      k: request('k', { interface: 'chat', chat: 'a' }),
      m: request('m', { within_call: true })
    };
    let pending: string[] = [];
    await stage.settle();
    for (let step = 0; step < 40; step++) {
      const id = ids[Math.floor(Math.random() * ids.length)] as string;
      if (Math.random() < 0.4) {
        const chat = chats[Math.floor(Math.random() * chats.length)] as string | null;
        act(() => stage.controller.open(chat));
      } else if (pending.includes(id)) {
        pending = pending.filter(each => each !== id);
        await stage.requests({ kind: 'settled', id, outcome: 'once' });
      } else {
        pending.push(id);
        await stage.requests({ kind: 'asked', permission: all[id] as PermissionInfo });
      }
      await stage.settle();
      const open = stage.controller.chat.id;
      const shown = pending.filter(each => each !== open);
      expect(cards()).toHaveLength(Math.min(shown.length, 3));
    }
  });
});

describe('the command that shows a pending request', () => {
  it('opens the chat that has it, also one in the background, or shows the card', async () => {
    const stage = await started();
    const shell = { activateById: jest.fn() };
    const app = { shell } as unknown as JupyterFrontEnd;
    const manager = new PanelManager(app, stage.services, false);
    expect(manager.withQuestion()).toBeNull();
    await stage.waiting(ofChat('c'));
    // The chat is not open: the panel has a card for it.
    expect(manager.withQuestion()?.controller.chat.id).toBeNull();
    const chat = stage.services.chats.open('c');
    await stage.settle();
    expect(cards()).toEqual([]);
    expect(manager.withQuestion()?.controller.chat).toBe(chat);
    act(() => manager.side.dispose());
  });
});
