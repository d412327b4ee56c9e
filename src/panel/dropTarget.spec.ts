import { nullTranslator } from '@jupyterlab/translation';

import { type Found, isRefused } from '../state/compose';
import { refusal } from './attachments';
import { DropTarget } from './dropTarget';

/** Drops a file of the desktop onto an element that takes it; what becomes of the file. */
async function dropped(name: string, type: string): Promise<[DragEvent, Found[]]> {
  const node = document.createElement('div');
  const event = new Event('drop', { cancelable: true }) as DragEvent;
  const file = new File(['bytes'], name, { type });
  Object.assign(event, { dataTransfer: { files: [file], types: ['Files'] } });
  const found: (Found | Promise<Found>)[] = [];
  new DropTarget(node, { notebook: {} as never }, each => found.push(...each));
  node.dispatchEvent(event);
  return [event, await Promise.all(found.map(each => Promise.resolve(each)))];
}

describe('a file from the desktop', () => {
  it('is attached if it is an image', async () => {
    const [event, found] = await dropped('plot.png', 'image/png');
    expect(event.defaultPrevented).toBe(true);
    const attachment = { kind: 'image', mime: 'image/png', data: btoa('bytes') };
    expect(found).toEqual([{ label: 'plot.png', attachment }]);
  });

  it('is refused if it is no image', async () => {
    const [event, found] = await dropped('paper.pdf', 'application/pdf');
    // Otherwise the browser would leave the page for it.
    expect(event.defaultPrevented).toBe(true);
    expect(found).toEqual([{ name: 'paper.pdf', why: 'no image' }]);
    const message = refusal(found.filter(isRefused), nullTranslator.load(''));
    expect(message).toContain('paper.pdf is not an image');
  });
});
