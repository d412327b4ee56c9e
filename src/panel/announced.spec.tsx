import { act, cleanup, fireEvent, screen } from '@testing-library/react';

import { REST } from '../common/rested';
import { DONE, MESSAGE, numbered } from '../testing/events';
import { Stage } from '../testing/panel';
import { button, info } from '../testing/screen';

const STOPPED = { kind: 'done', end: 'stopped', text: '' } as const;

const log = (): HTMLElement => screen.getByRole('log');
const announced = (stage: Stage): string | null | undefined =>
  stage.node.querySelector('.tk-Announced')?.textContent;

beforeEach(() => jest.useRealTimers());
afterEach(cleanup);

it('announces what is added to a chat, but not what it has when it is opened', async () => {
  jest.useFakeTimers();
  const stage = new Stage();
  stage.chats = [info('c', 'Long')];
  stage.past = Array.from({ length: 45 }, (_, place) => [
    numbered({ ...MESSAGE, text: `Message ${place}` }, 2 * place + 1, `t${place}`),
    numbered(DONE, 2 * place + 2, `t${place}`)
  ])
    .flat()
    .slice(0, -1);
  // How the log is when messages are added to it.
  const lives: (string | null)[] = [];
  const seen = new MutationObserver(records => {
    const isAdded = ({ addedNodes }: MutationRecord): boolean =>
      [...addedNodes].some(node => node instanceof Element && node.matches('.tk-Turn'));
    lives.push(...records.filter(isAdded).map(() => log().getAttribute('aria-live')));
  });
  seen.observe(stage.node, { childList: true, subtree: true });
  const step = async (): Promise<void> => {
    await act(async () => {
      await jest.advanceTimersByTimeAsync(REST / 2);
    });
  };
  act(() => stage.controller.open('c'));
  await step();
  expect(lives.splice(0)).toEqual(Array(20).fill('off'));
  await step();
  await step();
  // The twenty that are shown are others then, of which only one is new.
  stage.server.publish({ chat: 'c' }, numbered(MESSAGE, 91, 'new'), 91);
  await step();
  expect(lives.splice(0)).toEqual(['polite']);
  fireEvent.click(button('Show 26 earlier messages'));
  await step();
  expect(lives.splice(0)).toEqual(Array(26).fill('off'));
  await step();
  await step();
  expect(log().getAttribute('aria-live')).toBe('polite');
  jest.useRealTimers();
  seen.disconnect();
});

it('announces the end of an answer, but not of one that was stopped or of another chat', async () => {
  const stage = new Stage();
  await stage.say('Hello');
  expect(announced(stage)).toBe('');
  await stage.happens(STOPPED);
  expect(announced(stage)).toBe('');
  await stage.say('Hello', 'u');
  await stage.happens(DONE);
  expect(announced(stage)).toBe('The answer is complete.');
  cleanup();

  const other = new Stage();
  await other.say('Hello');
  other.chats = [info('d', 'Done')];
  other.past = [numbered(MESSAGE, 1), numbered(DONE, 2)];
  act(() => other.controller.open('d'));
  await other.settle();
  expect(announced(other)).toBe('');
});
