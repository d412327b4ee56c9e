import type { Cell } from '@jupyterlab/cells';
import { Panel, Widget } from '@lumino/widgets';

import { putInto } from './cells';

/** A focusable cell in the page. */
function cell(): Cell {
  const made = new Panel();
  made.node.tabIndex = 0;
  made.addWidget(new Widget());
  Widget.attach(made, document.body);
  return Object.assign(made, { ready: Promise.resolve() }) as unknown as Cell;
}

/** A widget with a button in a cell. */
async function put(into: Cell): Promise<[Widget, HTMLElement]> {
  const widget = new Widget();
  const button = widget.node.appendChild(document.createElement('button'));
  putInto(into, widget, 'end');
  await into.ready;
  return [widget, button];
}

afterEach(() => document.body.replaceChildren());

it('gives the focus of a widget that is disposed to its cell, and takes no other', async () => {
  const there = cell();
  const [[first, button], [second]] = [await put(there), await put(there)];
  button.focus();
  second.dispose();
  expect(document.activeElement).toBe(button);
  first.dispose();
  expect(document.activeElement).toBe(there.node);
  const [third, last] = await put(there);
  last.focus();
  there.dispose();
  third.dispose();
  expect(document.activeElement).toBe(document.body);
});
