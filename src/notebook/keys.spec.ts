import { NotebookModel, type NotebookPanel } from '@jupyterlab/notebook';

import { notebook, code } from '../testing/notebooks';
import { cellOf, keysFor, keysOf, keysOfCells, placeOf } from './keys';

const IDS = ['cut', 'cell-0', 'cell-1', 'cell-2', 'x', 'y'];

function pick(): string {
  return IDS[Math.floor(Math.random() * IDS.length)] as string;
}

/** A view of a notebook of this format. */
function view(minor: number, ids: readonly string[]): NotebookPanel {
  const cells = ids.map(id => ({ model: { id } }));
  const model = { nbformat: 4, nbformatMinor: minor, cells: cells.map(each => each.model) };
  return { content: { model, widgets: cells } } as never;
}

it('names each cell by one key that leads back to it, whatever ids there are', () => {
  for (let run = 0; run < 300; run++) {
    const ids = Array.from({ length: Math.floor(Math.random() * 6) }, pick);
    const minor = Math.random() < 0.5 ? 4 : 5;
    const panel = view(minor, ids);
    const { widgets, model } = panel.content;
    const keys = keysOf(model);
    expect(new Set(keys).size).toBe(ids.length);
    widgets.forEach((cell, index) => {
      const [key = ''] = keysOfCells(panel, [cell]);
      expect(key).toBe(keys[index]);
      expect(placeOf(key, keys)).toBe(index);
      expect(cellOf(panel, key)).toBe(cell);
      const isUnique = ids.filter(id => id === cell.model.id).length === 1;
      if (minor === 4 || !isUnique) {
        expect(key).toBe(`cell-${index}`);
      } else if (!cell.model.id.startsWith('cell-') || new Set(ids).size === ids.length) {
        expect(key).toBe(cell.model.id);
      }
    });
    expect(keysFor(panel, keys)).toEqual(keys);
  }
});

it('names the cells of an old notebook as the server does, which knows no id of the page', () => {
  const model = new NotebookModel();
  model.fromJSON({ ...notebook([code('a'), code('b')]), nbformat_minor: 2 });
  const cells = [...model.cells];
  const panel = { content: { model, widgets: cells.map(each => ({ model: each })) } } as never;
  expect(keysOf(model)).toEqual(['cell-0', 'cell-1']);
  // As another extension names them.
  expect(keysFor(panel, [cells[1]?.id ?? '', 'gone'])).toEqual(['cell-1', 'gone']);
  model.dispose();
});
