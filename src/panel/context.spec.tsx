/** The preview of a variable, and the figures. */

import { ServerConnection } from '@jupyterlab/services';
import { act, fireEvent, screen, within } from '@testing-library/react';

import { Stage } from '../testing/panel';
import { USAGE } from '../testing/events';
import { box, button } from '../testing/screen';

test('the figures are there from the first answer on', async () => {
  const figures = (): string | undefined => document.querySelector('.tk-Figures')?.textContent;
  const stage = new Stage();
  await stage.say('Hello');
  expect(figures()).toBeUndefined();
  await stage.happens({ ...USAGE, cost_usd: 0.5 }, { kind: 'done', end: 'done', text: '' });
  expect(figures()).toMatch(/tokens · \$0.50Last answer/);
});

describe('the chip of a variable', () => {
  const attached = async (): Promise<Stage> => {
    const stage = new Stage();
    act(() =>
      stage.controller.attach([
        { label: 'sales', notebook: 'a.ipynb', attachment: { kind: 'variable', name: 'sales' } }
      ])
    );
    await stage.settle();
    return stage;
  };

  const answers = (status: number, body: object): jest.SpyInstance =>
    jest
      .spyOn(ServerConnection, 'makeRequest')
      .mockImplementation(() =>
        Promise.resolve({ ok: status === 200, status, json: () => Promise.resolve(body) } as never)
      );

  it('asks the kernel when it is opened, shows the table, and closes with Escape', async () => {
    const head = [{ name: '<b>price</b>', type: 'int64', values: ['1', '2'] }];
    const table = { rows: 9, columns: 1, index: ['0', '1'], head };
    const asked = answers(200, { name: 'sales', table });
    const stage = await attached();
    expect(asked).not.toHaveBeenCalled();
    const toggle = button('Preview sales');
    fireEvent.click(toggle);
    await stage.settle();
    expect(String((asked.mock.calls as string[][])[0]?.[0])).toMatch(
      /variables\/sales\?notebook=a.ipynb$/
    );
    const shown = within(screen.getByRole('region', { name: 'Preview of sales' }));
    expect(shown.getByRole('columnheader').textContent).toBe('<b>price</b>int64');
    expect(shown.getAllByRole('row').map(row => row.textContent)).toEqual([
      '<b>price</b>int64',
      '01',
      '12'
    ]);
    fireEvent.keyDown(toggle, { key: 'Escape' });
    expect(screen.queryByRole('region', { name: 'Preview of sales' })).toBeNull();
    expect(document.activeElement).toBe(toggle);
  });

  it('says why there is no preview', async () => {
    answers(409, { error: { code: 'kernel_busy', message: 'The kernel is running code.' } });
    const stage = await attached();
    fireEvent.click(button('Preview sales'));
    await stage.settle();
    const region = screen.getByRole('region', { name: 'Preview of sales' });
    expect(region.textContent).toBe('The kernel is running code.');
  });

  it('keeps its preview where others are removed, which is not shown for another one', async () => {
    const warned = jest.spyOn(console, 'error');
    const waiting = new Map<string, () => void>();
    jest.spyOn(ServerConnection, 'makeRequest').mockImplementation(url => {
      const name = /variables\/(\w+)/.exec(url)?.[1] ?? '';
      const head = [{ name: `column of ${name}`, type: 'int', values: ['1'] }];
      const table = { rows: 1, columns: 1, index: ['0'], head };
      const found = { ok: true, status: 200, json: () => Promise.resolve({ name, table }) };
      return new Promise(resolve => waiting.set(name, () => resolve(found as never)));
    });
    const stage = new Stage();
    const names = ['sales', 'costs', 'stock', 'stock'];
    act(() =>
      stage.controller.attach(
        names.map(name => ({
          label: name,
          notebook: 'a.ipynb',
          attachment: { kind: 'variable', name }
        }))
      )
    );
    await stage.settle();
    const shown = (): (string | null)[] =>
      screen.queryAllByRole('region', { name: /^Preview of/ }).map(each => each.textContent);
    fireEvent.click(button('Preview sales'));
    fireEvent.click(button('Preview costs'));
    await stage.settle();
    const remove = button('Remove sales');
    remove.focus();
    fireEvent.click(remove);
    await stage.settle();
    expect(shown()).toEqual(['Loading…']);
    expect(document.activeElement).toBe(box());
    waiting.get('sales')?.();
    waiting.get('costs')?.();
    await stage.settle();
    expect(shown()).toEqual([expect.stringContaining('column of costs')]);
    fireEvent.click(screen.getAllByRole('button', { name: 'Remove stock' })[0] as HTMLElement);
    await stage.settle();
    expect(shown()).toEqual([expect.stringContaining('column of costs')]);
    expect(screen.getAllByRole('button', { name: 'Remove stock' })).toHaveLength(1);
    fireEvent.click(button('Remove costs'));
    await stage.settle();
    expect(shown()).toEqual([]);
    expect(warned).not.toHaveBeenCalled();
  });

  it.each(['Backspace', 'Delete'])('is removed by %s, and is not sent', async key => {
    const stage = await attached();
    fireEvent.keyDown(button('Remove sales'), { key });
    await stage.settle();
    fireEvent.change(box(), { target: { value: 'Hello' } });
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent[0]?.attachments).toBeUndefined();
  });
});
