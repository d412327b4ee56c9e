import { act, cleanup, fireEvent, screen } from '@testing-library/react';

import type { ChatInfo, NetChange } from '../api/events';
import { CALL, CHANGE, DONE, MESSAGE, RESULT } from '../testing/events';
import { Stage } from '../testing/panel';

afterEach(() => {
  cleanup();
});

const AGAIN = { ...CHANGE, action: 'replace', diff: '+y = 2', entry: 8 } as const;

/** A panel after a turn that changed a cell twice, and how often the server was asked for its net change. */
async function worked(): Promise<{ stage: Stage; reads: () => number }> {
  const stage = new Stage();
  let reads = 0;
  const first: NetChange = {
    notebook: 'a.ipynb',
    cell: 'z',
    action: 'insert',
    diff: '+x = 1\n+y = 2',
    truncated: false,
    outputs: false
  } as never;
  stage.api.netChanges = () =>
    reads++ === 0 ? Promise.resolve([first]) : new Promise(() => undefined);
  await stage.say('Work.');
  const changes = [7, 8].map(entry => ({
    entry,
    turn: 't',
    notebook: 'a.ipynb',
    time: entry,
    cells: ['z']
  }));
  stage.journal = { changes, since: 0 };
  const structured = { notebook: 'a.ipynb', runs: [{ cell: 'z' }] };
  await stage.happens(CALL, CHANGE, AGAIN, RESULT);
  await stage.happens({ ...CALL, call: 'r' }, { ...RESULT, call: 'r', structured }, DONE);
  return { stage, reads: () => reads };
}

const titles = (stage: Stage): number => stage.node.querySelectorAll('.tk-CellChange').length;

it('is not changed and reads nothing where another file is renamed or deleted', async () => {
  const { stage, reads } = await worked();
  expect([reads(), titles(stage)]).toEqual([1, 1]);
  const before = stage.store.state;
  await act(() => stage.services.reviews.moved('b.csv', 'c.csv'));
  await act(() => stage.services.reviews.moved('d', null));
  await stage.settle();
  expect(stage.store.state).toBe(before);
  expect(reads()).toBe(1);
});

it('keeps the parts that are not about a renamed notebook', async () => {
  const { stage } = await worked();
  stage.turn('u');
  await stage.happens({ ...MESSAGE, notebook: 'o.ipynb' }, { kind: 'began' }, DONE);
  const turns = stage.controller.chat.state.turns;
  await act(() => stage.services.reviews.moved('a.ipynb', 'b.ipynb'));
  const after = stage.controller.chat.state.turns;
  expect(after.map((turn, place) => turn === turns[place])).toEqual([false, true]);
  expect(after[0]?.todo).toBe(turns[0]?.todo);
});

it('lists a cell that was changed twice until the answer about its new path comes', async () => {
  const { stage, reads } = await worked();
  await act(() => stage.services.reviews.moved('a.ipynb', 'b.ipynb'));
  await stage.settle();
  expect([reads(), titles(stage)]).toEqual([2, 1]);
  expect(screen.getByRole('button', { name: 'Keep' })).toBeTruthy();
});

it('has the new path in results and in what was restored', async () => {
  const { stage } = await worked();
  const restored = [{ notebook: 'a.ipynb', cells: [], left: ['Edited.'], stayed: ['y'] }];
  act(() =>
    stage.store.update(state => ({
      ...state,
      open: Object.fromEntries(
        Object.entries(state.open).map(([key, chat]) => [
          key,
          { ...chat, turns: chat.turns.map(turn => ({ ...turn, restored })) }
        ])
      )
    }))
  );
  await act(() => stage.services.reviews.moved('a.ipynb', 'b.ipynb'));
  const [turn] = stage.controller.chat.state.turns;
  expect(turn?.items[1]).toMatchObject({ result: { structured: { notebook: 'b.ipynb' } } });
  expect(turn?.restored).toMatchObject([{ notebook: 'b.ipynb' }]);
});

it('translates the mark of a deleted notebook', async () => {
  const stage = new Stage();
  jest
    .spyOn(stage.services.trans, '__')
    .mockImplementation((text, ...given) =>
      text.replace('deleted', 'gelöscht').replace('%1', String(given[0]))
    );
  const notebook = 'a.ipynb (deleted)';
  stage.chats = [
    { id: 'c', title: 'Sales', notebook, updated: 0, busy: false } as unknown as ChatInfo
  ];
  await stage.say('Work.');
  stage.turn('u');
  await stage.happens({ ...MESSAGE, notebook }, { kind: 'began' }, DONE);
  const chips = Array.from(stage.node.querySelectorAll('.tk-Chip'), each => each.textContent);
  expect(chips).toContain('a.ipynb (gelöscht)');
  act(() => stage.controller.showHistory(true));
  await stage.settle();
  expect(stage.node.querySelector('.tk-Entry-note')?.textContent).toContain('a.ipynb (gelöscht)');
  fireEvent.change(screen.getByRole('searchbox'), { target: { value: 'gelöscht' } });
  expect(screen.getAllByRole('listitem')).toHaveLength(1);
});
