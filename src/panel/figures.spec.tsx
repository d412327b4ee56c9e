import { USAGE } from '../testing/events';
import { Stage } from '../testing/panel';

test('the figures are shown from the first answer on', async () => {
  const figures = (): string | undefined => document.querySelector('.tk-Figures')?.textContent;
  const stage = new Stage();
  await stage.say('Hello');
  expect(figures()).toBeUndefined();
  await stage.happens({ ...USAGE, session_cost_usd: 0.5 }, { kind: 'done', end: 'done', text: '' });
  expect(figures()).toMatch(/tokens · \$0.50Last answer/);
});
