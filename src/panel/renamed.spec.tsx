import { act, cleanup, fireEvent, screen } from '@testing-library/react';

import type { ChatInfo } from '../api/events';
import { CALL, CHANGE, DONE, MESSAGE, NET, RESULT } from '../testing/events';
import { Stage } from '../testing/panel';

const press = (name: string): boolean => fireEvent.click(screen.getByRole('button', { name }));
const changes = (): string => document.querySelector('.tk-Changes')?.textContent ?? '';

afterEach(() => {
  cleanup();
  document.body.replaceChildren();
});

/** A panel after a turn that changed a cell. */
async function worked(): Promise<Stage> {
  const stage = new Stage();
  await stage.say('Work.');
  stage.net = [NET];
  await stage.happens(CALL, CHANGE, RESULT, DONE);
  return stage;
}

/** Rename a file or folder, and show the notebook under its new name. */
async function rename(stage: Stage, from: string, to: string, notebook = to): Promise<void> {
  // As the server has it.
  stage.net = stage.net.map(each => ({ ...each, notebook }));
  await act(async () => {
    await stage.services.chats.moved(from, to);
  });
  const seen = { notebook, cell: null, selected: [] };
  Object.assign(stage.notebook, { seen });
  act(() => stage.store.update(state => ({ ...state, seen })));
  await stage.settle();
}

describe('the changes of a turn, after their notebook was renamed', () => {
  it('stay kept', async () => {
    const stage = await worked();
    press('Keep');
    await stage.settle();
    await rename(stage, 'a.ipynb', 'b.ipynb');
    expect(changes()).toContain('Kept');
  });

  it('are kept and undone there', async () => {
    const stage = await worked();
    await rename(stage, 'a.ipynb', 'd/a.ipynb');
    await rename(stage, 'd', 'e', 'e/a.ipynb');
    const paths: string[] = [];
    stage.api.undo = path => {
      paths.push(path);
      return Promise.resolve([]);
    };
    press('Undo');
    await stage.settle();
    expect(paths).toEqual(['e/a.ipynb']);
    press('Keep');
    await stage.settle();
    expect(changes()).toContain('Kept');
    expect(stage.kept).toHaveLength(1);
  });
});

describe('a cell that was attached before its notebook was renamed', () => {
  const CELL = { kind: 'cell', cell: 'x' } as const;
  const attached = { label: 'Cell 1', notebook: 'a.ipynb', attachment: CELL };
  const sent = { ...CELL, title: 'Cell 1' };

  it('is sent', async () => {
    const stage = new Stage();
    act(() => stage.controller.attach([attached]));
    await stage.settle();
    await rename(stage, 'a.ipynb', 'b.ipynb');
    act(() => stage.controller.change({ text: 'Fix it' }));
    await act(() => stage.controller.submit());
    expect(stage.sent).toMatchObject([{ notebook: 'b.ipynb', attachments: [sent] }]);
  });

  it('is not sent to another notebook of its former name', async () => {
    const stage = new Stage();
    act(() => stage.controller.attach([attached]));
    await stage.settle();
    await rename(stage, 'a.ipynb', 'b.ipynb', 'a.ipynb');
    act(() => stage.controller.change({ text: 'Fix it' }));
    await act(() => stage.controller.submit());
    expect(stage.sent.at(-1)).toMatchObject({ notebook: 'a.ipynb', attachments: [] });
  });
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
