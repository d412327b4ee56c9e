import { act, cleanup, fireEvent, screen } from '@testing-library/react';

import { unreachable } from '../api/client';
import type { ChatInfo, ModelsInfo } from '../api/events';
import { AnswerGuard } from '../common/answerGuard';
import {
  CALL,
  CHANGE,
  DONE,
  MESSAGE,
  NET,
  numbered,
  type Payload,
  PLANNED,
  PROPOSAL,
  request,
  RESULT,
  USAGE
} from '../testing/events';
import { Stage } from '../testing/panel';
import { info, type } from '../testing/screen';

const STOPPED = { kind: 'done', end: 'stopped', text: '' } as const;
const FAILED = { kind: 'done', end: 'failed', text: '' } as const;
const ERROR = { code: 'limit', message: 'It failed.', hint: 'Wait.', retryable: true };
const ASKED = {
  kind: 'permission',
  call: 'k',
  tool: 'insert_cell',
  id: 'q',
  effect: 'WRITE',
  notebook: 'a.ipynb',
  proposal: PROPOSAL,
  preview: '',
  answers: ['once', 'chat', 'deny']
} as unknown as Payload;

/** Return a stage with commands that do nothing. */
function start(...options: ConstructorParameters<typeof Stage>): Stage {
  const stage = new Stage(...options);
  for (const command of ['tk-ai:setup', 'tk-ai:connect']) {
    stage.commands.addCommand(command, { execute: () => undefined });
  }
  return stage;
}

/** Return a stage after a turn with these events. */
async function after(...events: Payload[]): Promise<Stage> {
  const stage = start();
  await stage.say('Go.');
  await stage.happens(...events);
  return stage;
}

/** What the panel can show, and what happens after a press. */
const SCENES: Record<string, () => Promise<[Stage, ...Payload[][]]>> = {
  'a draft': async () => {
    const stage = start();
    type('Hello');
    return Promise.resolve([stage, [{ ...MESSAGE, text: 'Hello' }, { kind: 'began' }]]);
  },
  'the tour': async () => {
    const models = { models: [], provider: 'tour' } as unknown as ModelsInfo;
    const stage = start({ models });
    stage.api.models = () => Promise.resolve(models);
    await stage.settle();
    return [stage, [{ ...MESSAGE, text: 'start' }, { kind: 'began' }]];
  },
  'a running turn and a draft': async () => {
    const stage = await after();
    type('More');
    return [stage, [STOPPED]];
  },
  'a queued message': async () => {
    const stage = await after();
    await stage.queue('Faster.', 'u', 1);
    return [stage, [{ kind: 'began' }]];
  },
  'a withdrawn message': async () => {
    const stage = await after();
    await stage.queue('Faster.', 'u', 1);
    await stage.happens(STOPPED);
    return [stage];
  },
  'a turn with changes': async () => {
    const stage = start();
    await stage.say('Work.');
    stage.net = [7, 8].map(entry => ({ ...NET, cell: `${entry}`, entries: [entry] }));
    await stage.happens(
      CALL,
      { ...CHANGE, cell: '7' },
      { ...CHANGE, cell: '8', entry: 8 },
      RESULT,
      USAGE,
      DONE
    );
    stage.api.undo = () => {
      stage.net = [];
      return Promise.resolve([]);
    };
    return [stage];
  },
  'a plan': async () => [
    await after(PLANNED).then(stage => {
      stage.turn('u');
      return stage;
    }),
    [MESSAGE]
  ],
  'a stopped turn': async () => [await after(STOPPED)],
  'a failed turn': async () => [await after({ kind: 'error', error: ERROR }, FAILED)],
  'an approval request': async () => [
    await after(CALL, ASKED).then(stage => {
      expect(screen.getByRole('group', { name: 'Change a.ipynb?' })).toBeTruthy();
      return stage;
    }),
    [{ kind: 'permission_resolved', call: 'k', id: 'q', answer: 'once', message: '' } as never]
  ],
  'approval requests of agents': async () => {
    const stage = await after(DONE);
    await stage.waiting(request('1', { answers: ['once', 'deny'] }), request('2'));
    expect(screen.getAllByRole('group', { name: /claude-code/ })).toHaveLength(2);
    return [stage];
  },
  'what is not attached, and an error': async () => {
    const stage = await after(DONE);
    act(() => stage.controller.attach([{ name: 'paper.pdf', why: 'no image' }]));
    stage.taking = () => Promise.reject(unreachable());
    return [stage];
  },
  'a connection that is lost': async () => {
    const stage = await after();
    act(() => stage.server.cut());
    await stage.settle();
    return [stage];
  },
  'a long chat': async () => {
    const stage = start();
    stage.chats = [info('c', 'Long')];
    stage.past = Array.from({ length: 45 }, (_, place) => [
      numbered({ ...MESSAGE, text: `Message ${place}` }, 2 * place + 1, `t${place}`),
      numbered(DONE, 2 * place + 2, `t${place}`)
    ]).flat();
    act(() => stage.controller.open('c'));
    await stage.settle();
    expect(screen.getByText('Show 25 earlier messages')).toBeTruthy();
    return [stage];
  },
  'the history': async () => {
    const stage = start();
    stage.chats = [info('c', 'Sales'), info('d', 'Weather')] satisfies ChatInfo[];
    stage.api.export = () => Promise.resolve(new Blob([]));
    act(() => stage.controller.showHistory(true));
    await stage.settle();
    return [stage];
  }
};

/** The buttons, without those that open a menu, which has the focus then. */
const buttons = (stage: Stage, of = 'button:enabled'): HTMLButtonElement[] =>
  [...stage.node.querySelectorAll<HTMLButtonElement>(of)].filter(
    each => !each.hasAttribute('aria-haspopup')
  );

/** The name of a button. */
const named = (node: Element): string | null => node.getAttribute('aria-label') ?? node.textContent;

/** Press a button as the Enter key does. */
async function press(stage: Stage, target: HTMLElement): Promise<void> {
  target.focus();
  fireEvent.click(target);
  await stage.settle();
}

/** Check that the keyboard is in the panel or a dialog, and that a held key presses nothing there. */
function check(stage: Stage, path: string): void {
  const { activeElement } = document;
  const isThere = stage.node.contains(activeElement) || activeElement?.closest('.jp-Dialog');
  const isDead = activeElement?.matches(':disabled') === true;
  expect([path, Boolean(isThere), isDead]).toEqual([path, true, false]);
  if (activeElement instanceof HTMLButtonElement && stage.node.contains(activeElement)) {
    for (const key of ['Enter', ' ']) {
      const isPress = fireEvent.keyDown(activeElement, { key, repeat: true });
      expect([path, key, isPress]).toEqual([path, key, false]);
      expect(fireEvent.keyDown(activeElement, { key })).toBe(true);
    }
  }
}

function clear(): void {
  cleanup();
  document.body.replaceChildren();
}

beforeEach(() => {
  jest.spyOn(AnswerGuard.prototype, 'armed', 'get').mockReturnValue(true);
  URL.createObjectURL = () => 'blob:';
  URL.revokeObjectURL = () => undefined;
});

afterEach(() => {
  clear();
  jest.restoreAllMocks();
});

describe('no press of a button loses the keyboard', () => {
  it.each(Object.keys(SCENES))('in %s', async name => {
    const make = SCENES[name] as (typeof SCENES)[string];
    let [stage, ...later] = await make();
    // The header and the chips are the same in all scenes.
    const own = name === 'a draft' ? '' : ':not(.tk-Header *, .tk-Composer > .tk-Chips *)';
    const count = buttons(stage, `button:enabled${own}`).length;
    expect(count).toBeGreaterThan(0);
    for (let place = 0; place < count; place++) {
      if (place > 0) {
        clear();
        [stage, ...later] = await make();
      }
      const before = new Set(buttons(stage));
      const first = buttons(stage, `button:enabled${own}`)[place] as HTMLElement;
      const path = `${name}: ${named(first)}`;
      await press(stage, first);
      check(stage, path);
      // What the press has shown is pressed, too, and then the rest of the story comes.
      for (const shown of buttons(stage).filter(each => !before.has(each))) {
        if (shown.isConnected && !shown.disabled) {
          await press(stage, shown);
          check(stage, `${path}, ${named(shown)}`);
        }
      }
      for (const events of later) {
        await stage.happens(...events);
        check(stage, `${path}, later`);
      }
    }
  });
});

it('leaves the focus where the person has put it', async () => {
  const stage = await after(STOPPED);
  const button = screen.getByRole('button', { name: 'Continue' });
  const elsewhere = document.body.appendChild(document.createElement('input'));
  for (const leave of [() => button.blur(), () => elsewhere.focus()]) {
    button.focus();
    leave();
    const now = document.activeElement;
    await stage.settle();
    act(() => stage.controller.showHistory(!stage.controller.showsHistory));
    await stage.settle();
    screen.queryByRole('searchbox')?.blur();
    expect([document.body, now]).toContain(document.activeElement);
  }
});
