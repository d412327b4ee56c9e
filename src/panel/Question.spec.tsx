import { act, cleanup, fireEvent, screen, within } from '@testing-library/react';

import { unreachable } from '../api/client';
import type { Answer } from '../api/events';
import { CALL, PROPOSAL, request } from '../testing/events';
import { Stage } from '../testing/panel';
import { box, button, choose, openMenu, type } from '../testing/screen';
import { AnswerGuard } from '../common/answerGuard';

const ASKS = {
  kind: 'permission',
  call: 'k',
  id: 'p',
  tool: 'insert_cell',
  effect: 'EXECUTE',
  notebook: 'a.ipynb',
  preview: '',
  proposal: PROPOSAL,
  answers: ['once', 'chat', 'notebook', 'deny']
} as const;

const question = (): HTMLElement => screen.getByRole('group', { name: 'Run this in a.ipynb?' });

/** Everything is in sight, and has been for long enough. */
let armed: boolean;

beforeEach(() => {
  armed = true;
  jest.spyOn(AnswerGuard.prototype, 'armed', 'get').mockImplementation(() => armed);
});

afterEach(() => {
  cleanup();
  jest.restoreAllMocks();
});

describe('an approval request', () => {
  const ask = async (answers: readonly Answer[] = ASKS.answers): Promise<Stage> => {
    const stage = new Stage();
    await stage.say('Run it.');
    await stage.happens({ ...CALL, arguments: {} }, { ...ASKS, answers });
    return stage;
  };

  it('says where the order may be another than it looks', async () => {
    const stage = new Stage();
    await stage.say('Run it.');
    const [step] = PROPOSAL.steps;
    const lines = [{ mark: '+', text: '["א", 10, 20, "ב"]' } as const];
    const steps = [{ ...(step as (typeof PROPOSAL.steps)[0]), lines }];
    await stage.happens(CALL, { ...ASKS, proposal: { ...PROPOSAL, steps } });
    expect(within(question()).queryByText(/from right to left/)).not.toBeNull();
  });

  it('asks about a change that counts as running as about a change', async () => {
    const stage = new Stage();
    await stage.say('Add a picture.');
    const steps = PROPOSAL.steps.map(step => ({ ...step, runs: false }));
    await stage.happens(CALL, { ...ASKS, proposal: { ...PROPOSAL, steps } });
    expect(screen.getByRole('group', { name: 'Change a.ipynb?' })).toBeTruthy();
  });

  it('shows the whole proposal, and takes no focus', async () => {
    await ask();
    expect(within(question()).getByText('Insert and run a code cell at the end')).toBeTruthy();
    expect(within(question()).getByRole('group', { name: 'Lines' }).textContent).toContain('x = 1');
    expect(question().contains(document.activeElement)).toBe(false);
  });

  it.each([
    ['Enter', {}, [['p', 'once', undefined]]],
    ['Escape', {}, [['p', 'deny', undefined]]],
    ['Enter', { shiftKey: true }, []],
    ['Enter', { ctrlKey: true }, []],
    ['Enter', { repeat: true }, []]
  ])('is answered by %s with %j as %j', async (key, modifiers, given) => {
    const stage = await ask();
    act(() => question().focus());
    fireEvent.keyDown(question(), { key, ...modifiers });
    await stage.settle();
    expect(stage.given).toEqual(given);
    if (given.length > 0) {
      expect(document.activeElement).toBe(box());
    }
  });

  it('takes no answer before it was visible', async () => {
    armed = false;
    const stage = await ask();
    fireEvent.keyDown(question(), { key: 'Enter' });
    fireEvent.pointerDown(button('Approve'));
    fireEvent.click(button('Approve'), { detail: 1 });
    await stage.settle();
    expect(stage.given).toEqual([]);
    expect(button('Approve').getAttribute('aria-disabled')).toBe('true');
  });

  it('is answered by a click that began on the same button, and by no other', async () => {
    const stage = await ask();
    fireEvent.pointerDown(button('Deny'));
    fireEvent.click(button('Approve'), { detail: 1 });
    fireEvent.click(button('Approve'), { detail: 2 });
    await stage.settle();
    expect(stage.given).toEqual([]);
    fireEvent.pointerDown(button('Deny'));
    fireEvent.click(button('Deny'), { detail: 1 });
    await stage.settle();
    expect(stage.given).toEqual([['p', 'deny', undefined]]);
  });

  it('has standing answers in a menu, for all tools or one', async () => {
    const stage = await ask(['once', 'chat', 'chat_tool', 'notebook', 'deny']);
    expect(openMenu('More answers')).toEqual([
      'Always allow in this chat',
      'Always allow in this notebook',
      'Always allow in this chat: only “insert_cell”',
      'Deny with a note…'
    ]);
    fireEvent.keyDown(document.querySelector('.lm-Menu') as HTMLElement, { keyCode: 27 });
    expect(document.activeElement).toBe(button('More answers'));
    choose('More answers', 'Always allow in this notebook');
    choose('More answers', 'Always allow in this chat: only “insert_cell”');
    await stage.settle();
    expect(stage.given).toEqual([['p', 'notebook', undefined]]);
  });

  it('is denied with a note, which Escape cancels', async () => {
    const stage = await ask();
    choose('More answers', 'Deny with a note…');
    const note = screen.getByRole('textbox', { name: 'Reason, or what to do instead' });
    fireEvent.keyDown(note, { key: 'Escape' });
    await stage.settle();
    expect(document.activeElement).toBe(question());
    choose('More answers', 'Deny with a note…');
    const again = screen.getByRole('textbox', { name: 'Reason, or what to do instead' });
    fireEvent.change(again, { target: { value: ' Use y. ' } });
    fireEvent.keyDown(again, { key: 'Enter' });
    await stage.settle();
    expect(stage.given).toEqual([['p', 'deny', 'Use y.']]);
  });

  it('is not answered by a key on its card while a note is written', async () => {
    const stage = await ask();
    choose('More answers', 'Deny with a note…');
    fireEvent.change(note(), { target: { value: 'Use y.' } });
    act(() => question().focus());
    fireEvent.keyDown(question(), { key: 'Enter' });
    fireEvent.keyDown(question(), { key: 'Escape' });
    await stage.settle();
    expect([stage.given, (note() as HTMLTextAreaElement).value]).toEqual([[], 'Use y.']);
  });

  it('can be answered again after an error', async () => {
    const stage = await ask();
    stage.taking = () => Promise.reject(unreachable());
    fireEvent.keyDown(question(), { key: 'Enter' });
    await stage.settle();
    expect(screen.getByRole('alert').textContent).toContain('The server cannot be reached.');
    stage.taking = () => Promise.resolve();
    fireEvent.keyDown(question(), { key: 'Enter' });
    await stage.settle();
    expect(stage.given).toHaveLength(2);
  });

  const note = (): HTMLElement =>
    screen.getByRole('textbox', { name: 'Reason, or what to do instead' });
  const settles = { kind: 'permission_settled', call: 'k', id: 'p' } as const;

  it('leaves its note below the draft when it is settled elsewhere', async () => {
    const stage = await ask();
    type('Half a th');
    choose('More answers', 'Deny with a note…');
    fireEvent.change(note(), { target: { value: 'Use y, ' } });
    await stage.happens(settles);
    expect([document.activeElement, box().value]).toEqual([box(), 'Half a th\n\nUse y, ']);
  });

  it.each([true, false])('leaves no note that was sent or cancelled: %j', async isAnsweredFirst => {
    const stage = await ask();
    choose('More answers', 'Deny with a note…');
    fireEvent.change(note(), { target: { value: 'Use x' } });
    fireEvent.keyDown(note(), { key: 'Escape' });
    choose('More answers', 'Deny with a note…');
    fireEvent.change(note(), { target: { value: 'Use y' } });
    let answered = (): void => undefined;
    stage.taking = () => new Promise(resolve => (answered = resolve));
    fireEvent.keyDown(note(), { key: 'Enter' });
    const answers = (): Promise<void> => {
      answered();
      return Promise.resolve();
    };
    await (isAnsweredFirst ? act(answers) : stage.happens(settles));
    await stage.settle();
    await (isAnsweredFirst ? stage.happens(settles) : act(answers));
    await stage.settle();
    expect([stage.given, box().value]).toEqual([[['p', 'deny', 'Use y']], '']);
  });

  it('moves the focus to the message box when it is settled elsewhere', async () => {
    const stage = await ask();
    act(() => question().focus());
    await stage.happens({ kind: 'permission_settled', call: 'k', id: 'p' });
    expect(document.activeElement).toBe(box());
  });
});

describe('requests of other agents', () => {
  it('is above the message box, announced, and answered', async () => {
    const stage = new Stage();
    await stage.settle();
    await stage.waiting(request('a', { author: 'Codex' }), request('b'));
    const asked = screen.getByRole('region', { name: 'Approvals' });
    expect(within(asked).getByText('2 approvals pending')).toBeTruthy();
    expect(stage.node.querySelector('.tk-Announced')?.textContent).toContain(
      'needs your approval.'
    );
    const first = within(asked).getByRole('group', { name: 'Codex · MCP: Change plan.ipynb?' });
    fireEvent.keyDown(first, { key: 'Enter' });
    await stage.settle();
    expect(stage.given).toEqual([['a', 'once', undefined]]);
    await stage.requests({ kind: 'settled', id: 'b', outcome: 'expired' });
    expect(screen.queryByRole('region', { name: 'Approvals' })).toBeNull();
    expect(stage.node.querySelector('.tk-Announced')?.textContent).toContain('no longer pending');
  });

  it('is reached by the arrows, from card to card and back into the box', async () => {
    const stage = new Stage();
    await stage.settle();
    await stage.waiting(request('a'), request('b'));
    const cards = [...stage.node.querySelectorAll<HTMLElement>('.tk-Question')];
    fireEvent.keyDown(box(), { key: 'ArrowUp' });
    expect(document.activeElement).toBe(cards[0]);
    fireEvent.keyDown(cards[0] as HTMLElement, { key: 'ArrowDown' });
    expect(document.activeElement).toBe(cards[1]);
    fireEvent.keyDown(cards[1] as HTMLElement, { key: 'ArrowDown' });
    expect(document.activeElement).toBe(box());
  });
});
