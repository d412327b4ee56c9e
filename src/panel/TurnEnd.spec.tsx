import { act, cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';

import { unreachable } from '../api/client';
import { AnswerGuard } from '../common/answerGuard';
import { CALL, CHANGE, DONE, NET, type Payload, PLANNED, RESULT } from '../testing/events';
import { Stage } from '../testing/panel';
import { box, choose, openMenu, unfold } from '../testing/screen';

const STOPPED = { kind: 'done', end: 'stopped', text: '' } as const;

const press = (name: string): boolean => fireEvent.click(screen.getByRole('button', { name }));
const has = (name: string): boolean => screen.queryByRole('button', { name }) !== null;
/** The items of the menu of the last answer. */
const items = (): string[] => {
  const found = openMenu('More');
  fireEvent.keyDown(document.querySelector('.lm-Menu') as HTMLElement, { keyCode: 27 });
  return found;
};
const pick = (item: string): void => choose('More', item);

/** Runs a turn that changes cells. */
async function worked(stage: Stage, ...changes: Payload[]): Promise<void> {
  await stage.say('Work.');
  stage.net = [NET];
  await stage.happens(CALL, ...changes, RESULT, DONE);
}

afterEach(() => {
  cleanup();
  document.body.replaceChildren();
  jest.restoreAllMocks();
});

describe('Restore to before this message', () => {
  const taken = [{ notebook: 'a.ipynb', cells: ['y'], left: ['Cell @x stays.'], stayed: ['x'] }];
  const answer = async (stage: Stage, button: string): Promise<void> => {
    pick('Restore to before this message…');
    await stage.settle();
    fireEvent.click(
      await waitFor(() => document.querySelector(`.jp-Dialog .${button}`) as Element)
    );
    await stage.settle();
  };

  it('asks first, and puts the message into the box', async () => {
    const stage = new Stage();
    await worked(stage, CHANGE);
    await answer(stage, 'jp-mod-reject');
    expect(stage.restored).toEqual([]);
    await answer(stage, 'jp-mod-warn');
    await stage.happens({ kind: 'restored', notebooks: taken });
    await stage.settle();
    expect([stage.restored, box().value]).toEqual([['t'], 'Work.']);
    expect(screen.getByText('1 replaced message')).toBeTruthy();
    const note = screen.getByText(/Restored to before this message/);
    expect(note.textContent).toContain('1 cell was restored. Cell @x stays.');
    // Sent as a new message: the chat is before the other one already.
    await stage.say('Work better.', 'u');
    expect(stage.sent.at(-1)).not.toHaveProperty('replaces');
  });

  it('leaves the message where it is if the server refuses', async () => {
    const stage = new Stage();
    await worked(stage, CHANGE);
    stage.taking = () => Promise.reject(unreachable());
    await answer(stage, 'jp-mod-warn');
    expect(screen.getByText('The server cannot be reached.')).toBeTruthy();
    expect([box().value, screen.queryByText('1 replaced message')]).toEqual(['', null]);
  });
});

describe('a plan', () => {
  it('is approved by a click that began when it had been in its place for long enough', async () => {
    let armed = false;
    jest.spyOn(AnswerGuard.prototype, 'armed', 'get').mockImplementation(() => armed);
    const stage = new Stage();
    await stage.say('Plan it.');
    await stage.happens(PLANNED);
    const click = async (): Promise<void> => {
      const approve = screen.getByRole('button', { name: 'Approve' });
      fireEvent.pointerDown(approve);
      fireEvent.click(approve, { detail: 1 });
      await stage.settle();
    };
    await click();
    expect(stage.plans).toEqual([]);
    armed = true;
    await click();
    expect(stage.plans).toEqual([['t', { answer: 'approve', mode: 'edit' }]]);
  });
});

describe('Try again', () => {
  it.each([
    ['Undo and try again', { notebook_of: 't', replaces: 't', undo_replaced: true }],
    ['Keep and try again', { notebook_of: 't', replaces: 't' }]
  ])('says what is done with the changes: %s', async (name, expected) => {
    const stage = new Stage();
    await worked(stage, CHANGE);
    pick(name);
    await stage.settle();
    const { chat, ...again } = stage.sent[1] ?? { message: '' };
    expect([chat, again]).toEqual(['c', { ...stage.sent[0], ...expected }]);
  });

  it('is at the last answer only', async () => {
    const stage = new Stage();
    await stage.say('One.');
    await stage.happens(DONE);
    await stage.say('Two.', 'u');
    expect(items()).toEqual(['Restore to before this message…']);
    await stage.happens(DONE);
    const [, last] = screen.getAllByRole('button', { name: 'More' });
    (last as HTMLElement).setAttribute('aria-label', 'Last');
    choose('Last', 'Try again');
    await stage.settle();
    expect(stage.sent.at(-1)).toMatchObject({ message: 'Two.', replaces: 'u' });
    expect(stage.sent.at(-1)).not.toHaveProperty('undo_replaced');
  });
});

describe('the to-do list of a turn', () => {
  it('is updated in place', async () => {
    const stage = new Stage();
    await stage.say('Work.');
    const item = (text: string, status: 'pending' | 'in_progress' | 'completed') => ({
      text,
      status
    });
    await stage.happens({
      kind: 'todo_list',
      items: [item('Look', 'in_progress'), item('Act', 'pending')]
    });
    await stage.happens({
      kind: 'todo_list',
      items: [item('Look', 'completed'), item('Act', 'in_progress')]
    });
    const list = screen.getByRole('list', { name: 'To-do list' });
    const read = within(list)
      .getAllByRole('listitem')
      .map(each => [within(each).getByRole('img').ariaLabel ?? '', each.textContent]);
    expect(read.map(([, text]) => text)).toEqual(['✓ Look', '▸ Act']);
    expect(within(list).getByRole('img', { name: 'Done' })).toBeTruthy();
    expect(within(list).getByRole('img', { name: 'In progress' })).toBeTruthy();
  });
});

describe('the changes of a turn', () => {
  it('are one diff by cell, to keep or undo', async () => {
    const stage = new Stage();
    await worked(stage, CHANGE, { ...CHANGE, action: 'replace', entry: 8 });
    stage.net = [
      { ...NET, entries: [7, 8] },
      { ...NET, cell: 'y', entries: [] }
    ];
    act(() => stage.controller.chat.recheck());
    await stage.settle();
    const changes = screen.getByRole('group', { name: 'Changes' });
    expect(within(changes).getByText('1 cell changed')).toBeTruthy();
    const cells = changes.querySelectorAll('details');
    expect(cells).toHaveLength(1);
    expect(cells[0]?.querySelector('summary')?.textContent).toBe('New cell 3+1 ');
    const fold = cells[0] as HTMLDetailsElement;
    unfold(fold);
    await stage.settle();
    expect(fold.querySelectorAll('.cm-line')).toHaveLength(1);
    fireEvent.click(within(fold).getByRole('button', { name: 'Undo this cell' }));
    await stage.settle();
    expect(stage.undone).toEqual([{ 7: ['z'], 8: ['z'] }]);
  });

  it('are kept as they are shown, and not with what came since', async () => {
    const stage = new Stage();
    await worked(stage, CHANGE);
    stage.net = [{ ...NET, entries: [7, 9] }];
    press('Keep');
    await stage.settle();
    expect(stage.kept).toEqual([{ 7: ['z'] }]);
    expect(screen.getByText('1 cell changed')).toBeTruthy();
    press('Keep');
    await stage.settle();
    expect(screen.getByText('Kept')).toBeTruthy();
  });
});

describe('suggested next steps', () => {
  const failed = { id: 'z', index: 1, line: 'df.plot()' };

  it('follow from what the turn left, and are sent', async () => {
    const stage = new Stage({}, null, failed);
    stage.unrun = ['y'];
    await worked(stage, CHANGE);
    expect(items()).toEqual([
      'Undo and try again',
      'Keep and try again',
      'Fix cell 2',
      'Run the changed cell',
      'Explain the changes',
      'Restore to before this message…'
    ]);
    pick('Fix cell 2');
    await stage.settle();
    expect(stage.sent.at(-1)?.message).toBe('Fix cell 2');
  });

  it('are about what the turn did only, and not there after a stop', async () => {
    const stage = new Stage({}, null, failed);
    await stage.say('Hello.');
    await stage.happens(DONE);
    expect(items()).toEqual(['Try again', 'Restore to before this message…']);
    cleanup();
    const stopped = new Stage({}, null, failed);
    await stopped.say('More.', 'u');
    await stopped.happens(STOPPED);
    expect([items(), has('Continue')]).toEqual([
      ['Try again', 'Restore to before this message…'],
      true
    ]);
  });
});
