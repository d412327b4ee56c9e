import { Widget } from '@lumino/widgets';
import { act, cleanup } from '@testing-library/react';

import { Stage } from '../testing/panel';
import { ChatPanel } from './widget';

afterEach(cleanup);

describe('the panel as a widget', () => {
  it('takes the next key once it is activated, and leaves the focus in it where it is', async () => {
    const stage = new Stage();
    const panel = new ChatPanel(stage.services, null);
    await act(async () => {
      Widget.attach(panel, document.body);
      await panel.renderPromise;
    });
    const box = panel.node.querySelector('textarea');
    panel.activate();
    await Promise.resolve();
    expect(document.activeElement).toBe(box);
    const button = panel.node.querySelector<HTMLElement>('button:enabled');
    button?.focus();
    panel.activate();
    await Promise.resolve();
    expect(document.activeElement).toBe(button);
    act(() => panel.dispose());
  });
});
