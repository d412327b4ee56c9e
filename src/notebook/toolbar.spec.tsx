import type { NotebookPanel } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { act, fireEvent, screen } from '@testing-library/react';

import type { NotebookActivity } from './activity';
import type { CombinedChange } from '../api/events';
import { NET } from '../testing/events';
import { REST } from '../common/rested';
import { choose } from '../testing/screen';
import { ReviewItem, RunningItem } from './toolbar';

it('keeps what it has shown, and not what arrives with the click', async () => {
  const kept = jest.fn(() => Promise.resolve());
  const activity = {
    changed: new Signal<object, void>({}),
    marks: new Map([['z', NET]]),
    keep: kept
  };
  const content = { widgets: [], activeCellIndex: 0, node: document.createElement('div') };
  const panel = { content } as unknown as NotebookPanel;
  const item = new ReviewItem(panel, activity as never, nullTranslator.load(''));
  await act(async () => {
    Widget.attach(item, document.body);
    await item.renderPromise;
  });
  activity.marks = new Map([['z', { ...NET, entries: [7, 8] }]]);
  choose('Keep or undo all changes', 'Keep all');
  expect(kept).toHaveBeenCalledWith([NET]);
  act(() => item.dispose());
});

it('goes to the next changed cell of a notebook without ids', async () => {
  const visited: number[] = [];
  const widgets = ['r1', 'r2', 'r3'].map(id => ({ model: { id }, node: { focus: jest.fn() } }));
  const content = {
    ...{ widgets, model: { nbformat: 4, nbformatMinor: 4 }, activeCellIndex: 1 },
    scrollToItem: (place: number) => Promise.resolve(void visited.push(place))
  };
  const marks = ['cell-0', 'cell-2', 'gone'].map(
    cell => [cell, { ...NET, cell, yours: false }] as const
  );
  const activity = { changed: new Signal<object, void>({}), marks: new Map(marks) };
  const trans = nullTranslator.load('');
  const item = new ReviewItem({ content } as never, activity as never, trans);
  await act(async () => {
    Widget.attach(item, document.body);
    await item.renderPromise;
  });
  for (const place of [2, 0, 2]) {
    fireEvent.click(screen.getByTitle('Go to the next changed cell'));
    expect(content.activeCellIndex).toBe(place);
  }
  expect(visited).toEqual([2, 0, 2]);
  act(() => item.dispose());
});

it('leads to the cell that an agent shows', async () => {
  const widgets = ['r1', 'r2'].map(id => ({ model: { id }, node: { focus: jest.fn() } }));
  const content = { widgets, model: null, activeCellIndex: 0, scrollToItem: jest.fn() };
  const dismiss = jest.fn();
  const changed = new Signal<object, void>({});
  const activity = { changed, running: [], shown: { cell: 'r2', author: 'Claude' }, dismiss };
  const item = new RunningItem({ content } as never, activity as never, nullTranslator.load(''));
  await act(async () => {
    Widget.attach(item, document.body);
    await item.renderPromise;
  });
  fireEvent.click(screen.getByRole('button', { name: 'Claude shows you a cell' }));
  expect([content.activeCellIndex, dismiss.mock.calls.length]).toEqual([1, 1]);
  act(() => item.dispose());
});

describe('announcements of a toolbar', () => {
  const marks = new Map<string, CombinedChange>();
  const running: { cell: string; author: string }[] = [];
  const changed = new Signal<object, void>({});
  const activity = { changed, marks, running } as unknown as NotebookActivity;
  const panel = { content: { widgets: [], activeCellIndex: 0 } } as unknown as NotebookPanel;

  it('are a text at rest, once, and never the buttons', async () => {
    const trans = nullTranslator.load('');
    const items = [new RunningItem(panel, activity, trans), new ReviewItem(panel, activity, trans)];
    await act(async () => {
      items.forEach(each => Widget.attach(each, document.body));
      await items[0]?.renderPromise;
      await items[1]?.renderPromise;
    });
    const regions = screen.getAllByRole('status');
    const said: string[] = [];
    const observer = new MutationObserver(records => {
      said.push(...records.map(({ target }) => target.textContent ?? ''));
    });
    regions.forEach(each =>
      observer.observe(each, { childList: true, characterData: true, subtree: true })
    );
    jest.useFakeTimers();
    const step = async (milliseconds: number): Promise<void> => {
      act(() => changed.emit());
      await act(async () => {
        await jest.advanceTimersByTimeAsync(milliseconds);
      });
    };
    // One cell after the other is changed and run.
    for (let cell = 0; cell < 50; cell++) {
      running.push({ cell: `${cell}`, author: 'Claude' });
      marks.set(`${cell}`, { ...NET, cell: `${cell}` });
      await step(REST / 2);
      running.pop();
      await step(REST / 5);
    }
    running.push({ cell: 'last', author: 'Claude' });
    await step(REST);
    expect(said).toEqual(['50 cells changed', 'Claude is running a cell']);
    expect(regions.flatMap(each => [...each.querySelectorAll('button')])).toEqual([]);
    expect(screen.getAllByRole('button').map(each => each.textContent)).toContain(
      '50 cells changed'
    );
    jest.useRealTimers();
    observer.disconnect();
    act(() => items.forEach(each => each.dispose()));
  });
});
