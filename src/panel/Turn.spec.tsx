import { cleanup, fireEvent, screen } from '@testing-library/react';

import type { ModelsInfo } from '../api/events';
import { MESSAGE } from '../testing/events';
import { Stage } from '../testing/panel';

afterEach(cleanup);

it('asks to continue', async () => {
  const stage = new Stage();
  await stage.say('start');
  await stage.happens({ kind: 'done', end: 'stopped', text: '' });
  fireEvent.click(screen.getByRole('button', { name: 'Continue' }));
  await stage.settle();
  expect(stage.sent.at(-1)?.message).toBe('Continue.');
});

it.each([
  ['scripted', 'Scripted'],
  ['scripted:large', 'Scripted'],
  ['sonnet', 'Claude']
])('names who answers by the model %s, and offers agents by their titles', async (model, name) => {
  const models = { models: ['sonnet', 'scripted'], agents: { scripted: 'Scripted' } };
  const stage = new Stage({ models: models as unknown as ModelsInfo });
  await stage.say('Hello.');
  stage.turn('u');
  await stage.happens({ ...MESSAGE, model });
  await stage.happens({ kind: 'began' });
  const answers = stage.node.querySelectorAll('.tk-Answer .tk-Who');
  expect(Array.from(answers, ({ textContent }) => textContent)).toEqual(['Claude', name]);
  const offered = screen.getByRole<HTMLSelectElement>('combobox', { name: 'Model' }).options;
  expect(Array.from(offered, ({ value, text }) => [value, text])).toEqual([
    ['sonnet', 'sonnet'],
    ['scripted', 'Scripted']
  ]);
});

it('draws a diagram once it is whole', async () => {
  const stage = new Stage();
  await stage.say('Draw it.');
  const code = (): string => stage.node.querySelector('.tk-Code')?.textContent ?? '';
  await stage.happens({ kind: 'text', block: 0, text: '```mermaid\ngraph' });
  expect(code()).toBe('mermaid```\ngraph\n```');
  await stage.happens({ kind: 'text', block: 0, text: ' LR\n```\n' });
  expect(code()).toBe('mermaid```mermaid\ngraph LR\n```');
});
