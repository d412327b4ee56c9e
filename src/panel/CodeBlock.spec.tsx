import { act, cleanup } from '@testing-library/react';

import { Stage } from '../testing/panel';

afterEach(cleanup);

it('draws a diagram again in another theme, and leaves other code as it is', async () => {
  const stage = new Stage();
  await stage.say('Draw it.');
  const text = '```mermaid\ngraph LR\n```\n\n```python\nx = 1\n```\n';
  await stage.happens({ kind: 'text', block: 0, text });
  const blocks = (): Element[] => [...stage.node.querySelectorAll('.tk-Code > div:last-child')];
  const [diagram, code] = blocks();
  act(() => stage.store.update(state => ({ ...state, theme: 'JupyterLab Dark' })));
  await stage.settle();
  expect(blocks()[0]).not.toBe(diagram);
  expect(blocks()[0]?.textContent).toContain('graph LR');
  expect(blocks()[1]).toBe(code);
});
