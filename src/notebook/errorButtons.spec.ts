import { OutputAreaModel } from '@jupyterlab/outputarea';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Panel, Widget } from '@lumino/widgets';

import { addErrorButtons } from './errorButtons';

const ERROR = { output_type: 'error', ename: 'KeyError', evalue: 'x', traceback: [] };
const DISPLAY = { output_type: 'display_data', data: { 'text/plain': 'x' }, metadata: {} };

/** A notebook of one cell with these outputs, and whether its buttons are shown. */
async function shownFor(outputs: OutputAreaModel): Promise<() => boolean> {
  const cell = Object.assign(new Panel(), {
    model: { id: 'a', type: 'code', outputs },
    ready: Promise.resolve()
  });
  cell.addWidget(new Widget());
  const content = { widgets: [cell], model: null, modelChanged: new Signal({}) };
  const panel = { content, isDisposed: false, disposed: new Signal({}) };
  addErrorButtons(panel as never, jest.fn(), nullTranslator.load(''));
  await new Promise(resolve => setTimeout(resolve));
  return () => cell.widgets.some(each => each.hasClass('tk-Failed'));
}

it('shows buttons while there is an error, however the outputs change', async () => {
  const outputs = new OutputAreaModel({ trusted: false });
  outputs.add(DISPLAY);
  const isShown = await shownFor(outputs);
  const place = (): number => Math.floor(Math.random() * outputs.length);
  const acts = [
    () => outputs.add(Math.random() < 0.3 ? ERROR : DISPLAY),
    () => outputs.add(Math.random() < 0.3 ? ERROR : DISPLAY),
    () => outputs.length > 0 && outputs.set(place(), Math.random() < 0.3 ? ERROR : DISPLAY),
    () => outputs.length > 0 && outputs.remove(place()),
    () => (outputs.trusted = !outputs.trusted),
    () => Math.random() < 0.2 && outputs.clear(),
    () => Math.random() < 0.2 && outputs.fromJSON([DISPLAY, ERROR])
  ];
  for (let step = 0; step < 300; step++) {
    acts[Math.floor(Math.random() * acts.length)]?.();
    await Promise.resolve();
    expect(isShown()).toBe(outputs.toJSON().some(each => each.output_type === 'error'));
  }
});

it('looks at each output once', async () => {
  const outputs = new OutputAreaModel();
  await shownFor(outputs);
  const get = jest.spyOn(outputs, 'get');
  for (let each = 0; each < 300; each++) {
    outputs.add(DISPLAY);
  }
  expect(get.mock.calls.length).toBeLessThanOrEqual(300);
});
