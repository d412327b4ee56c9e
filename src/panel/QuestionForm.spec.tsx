import { act, cleanup, fireEvent, screen, within } from '@testing-library/react';

import { unreachable } from '../api/client';
import { CALL } from '../testing/events';
import { Stage } from '../testing/panel';
import { box, button } from '../testing/screen';

const OPTIONS = [
  { label: 'Line', description: 'Over time' },
  { label: '<b>Bars</b>', description: '' }
];
const ASKS = {
  kind: 'question',
  call: 'k',
  tool: 'AskUserQuestion',
  questions: [
    { text: 'Which plot?', header: 'Plot', options: OPTIONS, multiple: false },
    { text: 'Which days?', header: '', options: OPTIONS, multiple: true }
  ]
} as const;

const form = (): HTMLElement => screen.getByRole('group', { name: 'The agent asks' });
const field = (name: RegExp): HTMLElement => within(form()).getByRole('group', { name });

afterEach(cleanup);

describe('questions of an agent', () => {
  const ask = async (): Promise<Stage> => {
    const stage = new Stage();
    await stage.say('Plot it.');
    await stage.happens({ ...CALL, tool: 'AskUserQuestion', arguments: {} }, ASKS);
    return stage;
  };

  it('are announced, take no focus, and are reached from the message box', async () => {
    const stage = await ask();
    expect(screen.getByText('The agent asks you a question.')).toBeTruthy();
    expect(form().contains(document.activeElement)).toBe(false);
    fireEvent.keyDown(box(), { key: 'ArrowUp' });
    expect(document.activeElement).toBe(form());
    expect(button('Answer').getAttribute('aria-disabled')).toBe('true');
    fireEvent.click(button('Answer'));
    await stage.settle();
    expect(stage.answered).toEqual([]);
  });

  it('are answered by options and other words, and stay in the transcript as text', async () => {
    const stage = await ask();
    const plot = within(field(/Which plot/));
    const days = within(field(/Which days/));
    fireEvent.change(plot.getByRole('textbox'), { target: { value: 'A map' } });
    fireEvent.click(plot.getByRole('radio', { name: /Line/ }));
    fireEvent.click(days.getByRole('checkbox', { name: /Line/ }));
    fireEvent.click(days.getByRole('checkbox', { name: /Bars/ }));
    fireEvent.change(days.getByRole('textbox'), { target: { value: ' Pies ' } });
    stage.taking = () => Promise.reject(unreachable());
    fireEvent.click(button('Answer'));
    await stage.settle();
    stage.taking = () => Promise.resolve();
    fireEvent.click(button('Answer'));
    await stage.settle();
    const given = [['Line'], ['Line', '<b>Bars</b>', 'Pies']];
    expect(stage.answered).toEqual([
      ['k', given],
      ['k', given]
    ]);
    act(() => form().focus());
    await stage.happens({ kind: 'question_settled', call: 'k', given });
    expect(screen.queryByRole('group', { name: 'The agent asks' })).toBeNull();
    expect(document.activeElement).toBe(box());
    expect(stage.node.querySelector('.tk-Answers')?.textContent).toBe(
      'Which plot?LineWhich days?Line, <b>Bars</b>, Pies'
    );
  });

  it('can be skipped', async () => {
    const stage = await ask();
    fireEvent.click(button('Skip'));
    await stage.settle();
    expect(stage.answered).toEqual([['k', []]]);
    await stage.happens({ kind: 'question_settled', call: 'k', given: [] });
    expect(screen.getAllByText('No answer')).toHaveLength(2);
  });
});
