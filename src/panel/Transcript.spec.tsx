import { act, cleanup, fireEvent, screen, waitFor, within } from '@testing-library/react';

import { unreachable } from '../api/client';
import type { ModelsInfo } from '../api/events';
import {
  CALL,
  CHANGE,
  DONE,
  MESSAGE,
  NET,
  PLANNED,
  PROPOSAL,
  RESULT,
  story
} from '../testing/events';
import { Stage } from '../testing/panel';
import { box, button, choose, goes, info, type, unfold } from '../testing/screen';
import { AnswerGuard } from '../common/answerGuard';
import { Connect } from './ConnectForm';
import { showContent } from './dialog';

const FAILED = { kind: 'done', end: 'failed', text: '' } as const;
const STOPPED = { kind: 'done', end: 'stopped', text: '' } as const;

const written = (text: string, start = 0) => ({ kind: 'text', block: 0, start, text }) as const;
const problem = (code: string) =>
  ({
    kind: 'error',
    error: { code, message: 'It failed.', hint: 'Wait.', retryable: true }
  }) as const;

/** The messages, in their order. */
const messages = (): HTMLElement[] => screen.getAllByRole('group', { name: 'Message' });
const first = (): HTMLElement => messages()[0] as HTMLElement;
const last = (): HTMLElement => messages().at(-1) as HTMLElement;
const press = (key: string): boolean => fireEvent.keyDown(box(), { key });

/** Opens the card of the one call. */
function openCard(stage: Stage): HTMLElement {
  const card = stage.node.querySelector('.tk-Call') as HTMLElement;
  unfold(card.querySelector('details') as HTMLDetailsElement);
  return card;
}

beforeEach(() => {
  jest.spyOn(AnswerGuard.prototype, 'armed', 'get').mockReturnValue(true);
});

afterEach(() => {
  cleanup();
  document.body.replaceChildren();
  jest.restoreAllMocks();
});

describe('a queued message', () => {
  const queued = async (): Promise<Stage> => {
    const stage = new Stage();
    await stage.say('Count.');
    await stage.happens(written('One, two'));
    await stage.queue('First?', 'u', 1);
    await stage.queue('Second?', 'v', 2);
    return stage;
  };

  it('shows its status until its turn begins', async () => {
    const stage = await queued();
    expect(screen.getAllByText('Queued')).toHaveLength(2);
    expect(last().querySelector<HTMLElement>('.tk-Answer')?.hidden).toBe(true);
    stage.turn('t');
    await stage.happens(DONE);
    stage.turn('u');
    await stage.happens({ kind: 'began' }, written('Answered.'), DONE);
    expect(screen.getAllByText('Queued')).toHaveLength(1);
    expect(messages().map(each => within(each).queryByText('Answered.') !== null)).toEqual([
      false,
      true,
      false
    ]);
    expect(within(first()).getByText('One, two')).toBeTruthy();
  });

  it('can be removed, and sent again', async () => {
    const stage = await queued();
    fireEvent.click(within(last()).getByRole('button', { name: 'Remove' }));
    await stage.settle();
    expect(stage.stopped).toEqual(['v']);
    await stage.happens(STOPPED);
    expect(within(last()).getByText('Not sent.')).toBeTruthy();
    fireEvent.click(within(last()).getByRole('button', { name: 'Send' }));
    await stage.settle();
    expect(stage.sent.at(-1)).toMatchObject({ message: 'Second?', notebook: 'a.ipynb' });
  });

  it('is moved to the message box, and replaces nothing when it is sent again', async () => {
    const stage = await queued();
    fireEvent.click(within(last()).getByRole('button', { name: 'Edit and send again' }));
    await stage.settle();
    expect(stage.stopped).toEqual(['v']);
    expect(box().value).toBe('Second?');
    expect(document.activeElement).toBe(box());
    await stage.happens(STOPPED);
    expect(screen.getAllByText('Queued')).toHaveLength(1);
    press('Enter');
    await stage.settle();
    expect(stage.sent.at(-1)).toMatchObject({ message: 'Second?' });
    expect(stage.sent.at(-1)).not.toHaveProperty('replaces');
  });
});

describe('a message that was edited', () => {
  it('collapses the messages that it replaced', async () => {
    const stage = new Stage();
    for (const [turn, text, answer] of [
      ['t', 'I am Ada.', 'Hello, Ada.'],
      ['u', 'A fruit?', 'A plum.'],
      ['v', 'Colour?', 'Purple.']
    ] as const) {
      await stage.say(text, turn);
      await stage.happens(written(answer), DONE);
    }
    const fruit = messages()[1] as HTMLElement;
    fireEvent.click(within(fruit).getByRole('button', { name: 'Edit and send again' }));
    expect(box().value).toBe('A fruit?');
    expect(within(goes()).getByText('Instead of “A fruit?”')).toBeTruthy();
    await stage.say('A green fruit?', 'w');
    await stage.happens(written('A pear.'), DONE);
    expect(stage.sent.at(-1)).toMatchObject({ message: 'A green fruit?', replaces: 'u' });
    expect(screen.getByText('A pear.')).toBeTruthy();
    expect(screen.getByText('Hello, Ada.')).toBeTruthy();
    expect(screen.queryByText('A plum.')).toBeNull();
    expect(within(goes()).queryByText(/Instead of/)).toBeNull();
    const fold = screen.getByText('2 replaced messages').closest('details');
    unfold(fold as HTMLDetailsElement);
    expect(screen.getByText('A plum.')).toBeTruthy();
    expect(screen.getByText('Purple.')).toBeTruthy();
  });
});

describe('a plan', () => {
  const planned = async (): Promise<Stage> => {
    const stage = new Stage();
    fireEvent.change(screen.getByRole('combobox', { name: 'Mode' }), { target: { value: 'plan' } });
    await stage.say('What would you do?');
    await stage.happens(written('I would…'), PLANNED);
    return stage;
  };
  const mode = (): string =>
    screen.getByRole<HTMLSelectElement>('combobox', { name: 'Mode' }).value;

  it.each([
    ['Approve', 'edit'],
    ['Approve, but ask each time', 'ask']
  ])('is carried out after %s, in the mode %s', async (name, carriedOut) => {
    const stage = await planned();
    expect([stage.sent[0]?.mode, mode()]).toEqual(['plan', 'plan']);
    stage.turn('u');
    if (name === 'Approve') {
      fireEvent.click(button(name));
    } else {
      choose('More answers', name);
    }
    await stage.settle();
    expect(stage.plans).toEqual([['t', { answer: 'approve', mode: carriedOut }]]);
    expect(mode()).toBe(carriedOut);
    expect(document.activeElement).toBe(box());
    await stage.happens(MESSAGE);
    expect(screen.queryByRole('button', { name: 'Approve' })).toBeNull();
  });

  it('is settled by an answer with changes, and the next one is pending', async () => {
    const stage = await planned();
    fireEvent.click(button('Change the plan…'));
    type('Two cells.');
    stage.turn('u');
    press('Enter');
    await stage.settle();
    expect(stage.plans).toEqual([['t', { answer: 'reject', words: 'Two cells.' }]]);
    await stage.happens({ ...MESSAGE, text: 'Two cells.' }, { kind: 'began' }, PLANNED);
    expect(screen.getAllByRole('button', { name: 'Change the plan…' })).toHaveLength(1);
    expect(within(goes()).queryByText('Changes to the plan')).toBeNull();
  });

  it('is not answered by a message once its chip is removed', async () => {
    const stage = await planned();
    fireEvent.click(button('Change the plan…'));
    fireEvent.click(button('Remove Changes to the plan'));
    expect(document.activeElement).toBe(box());
    await stage.say('Never mind.', 'u');
    expect(stage.plans).toEqual([]);
    expect(stage.sent.at(-1)).toMatchObject({ message: 'Never mind.' });
    expect(screen.queryByRole('button', { name: 'Approve' })).toBeNull();
  });
});

describe('an answer', () => {
  it('keeps its text when it is stopped', async () => {
    const stage = new Stage();
    await stage.say('Count.');
    await stage.happens(written('One,'));
    expect(screen.queryByRole('button', { name: 'Send' })).toBeNull();
    press('Escape');
    await stage.settle();
    expect(stage.stopped).toEqual([undefined]);
    await stage.happens(STOPPED);
    expect(screen.getByText('Stopped. Changes made so far were kept.')).toBeTruthy();
    expect(screen.getByText('One,')).toBeTruthy();
    expect(button('Send')).toBeTruthy();
    expect(screen.queryByRole('button', { name: 'Stop' })).toBeNull();
  });

  it('is shown once if its stream was lost and repeated', async () => {
    const stage = new Stage();
    await stage.say('Count.');
    await stage.happens(
      written('One, two,'),
      { kind: 'text', block: 1, text: 'and cut' },
      { kind: 'discarded', block: 0 },
      written('One, two, three.'),
      DONE
    );
    expect(screen.getAllByText(/One, two/).map(node => node.textContent)).toEqual([
      'One, two, three.'
    ]);
    expect(screen.queryByText('and cut')).toBeNull();
  });

  it('keeps open parts while it streams', async () => {
    const stage = new Stage();
    await stage.say('Count.');
    await stage.happens(CALL, RESULT, written('Then one'));
    const details = openCard(stage).querySelector('details') as HTMLDetailsElement;
    await stage.happens(written(' two three.', 8));
    await stage.happens(DONE);
    expect(details.isConnected && details.open).toBe(true);
    expect(within(details).getByText('Done.')).toBeTruthy();
  });

  it('inserts its code into the notebook', async () => {
    const stage = new Stage();
    const done: string[] = [];
    stage.notebook.insertCell = source => done.push(`insert ${source}`);
    stage.notebook.replaceCell = source => done.push(`replace ${source}`);
    await stage.say('How?');
    await stage.happens(written('Use this:\n\n```python\nx = 1\n```\n'), DONE);
    const code = within(screen.getByRole('group', { name: 'Code' }));
    fireEvent.click(code.getByRole('button', { name: 'Insert as a cell' }));
    fireEvent.click(code.getByRole('button', { name: 'Replace the active cell' }));
    expect(done).toEqual(['insert x = 1', 'replace x = 1']);
  });
});

describe('a call', () => {
  it('that was denied shows it', async () => {
    const stage = new Stage();
    await stage.say('Add a cell.');
    await stage.happens(CALL, {
      kind: 'permission',
      call: 'k',
      id: 'p',
      tool: 'insert_cell',
      effect: 'EXECUTE',
      notebook: 'a.ipynb',
      preview: '',
      proposal: PROPOSAL,
      answers: ['once', 'deny']
    });
    expect(stage.node.querySelector('.tk-Announced')?.textContent).toBe(
      'Claude needs your approval.'
    );
    // Nothing but the keys leads to it, and back.
    const question = screen.getByRole('group', { name: 'Run this in a.ipynb?' });
    act(() => box().focus());
    press('ArrowUp');
    expect(document.activeElement).toBe(question);
    fireEvent.keyDown(question, { key: 'Escape' });
    await stage.settle();
    expect(stage.given).toEqual([['p', 'deny', undefined]]);
    const structured = { error: { code: 'permission_denied' } };
    await stage.happens(
      { kind: 'permission_settled', call: 'k', id: 'p' },
      { ...RESULT, ok: false, structured },
      DONE
    );
    const card = within(stage.node.querySelector('.tk-Call') as HTMLElement);
    expect(card.getByRole('img', { name: 'Denied' })).toBeTruthy();
    expect(card.getByText('Denied: add a cell')).toBeTruthy();
  });

  it('that ran a cell shows its code, and a link to the cell', async () => {
    const stage = new Stage();
    stage.notebook.sourceOf = (path, cell) => `${path} ${cell}`;
    const structured = { notebook: 'long.ipynb', runs: [{ cell: 'z', status: 'ok', output: '' }] };
    await stage.say('Run the last one.');
    const ran = { ...CALL, tool: 'execute_cell', arguments: { cell: 39 } } as const;
    await stage.happens(ran, { ...RESULT, tool: 'execute_cell', structured }, DONE);
    // What nobody has opened is not even rendered.
    expect(stage.node.querySelector('.tk-Call-details')).toBeNull();
    const card = openCard(stage);
    await stage.settle();
    expect(within(card).getByText(/long.ipynb z/)).toBeTruthy();
    fireEvent.click(within(card).getByRole('button', { name: 'Show cell in long.ipynb' }));
    expect(stage.revealed).toEqual(['z']);
  });

  const ran = async (run: object): Promise<[Stage, HTMLElement]> => {
    const stage = new Stage();
    await stage.say('Run it.');
    const called = { ...CALL, tool: 'execute_ipython', arguments: { code: '' } } as const;
    const structured = { notebook: 'a.ipynb', runs: [{ status: 'ok', ...run }] };
    await stage.happens(called, { ...RESULT, tool: 'execute_ipython', structured }, DONE);
    const card = openCard(stage);
    await stage.settle();
    return [stage, card];
  };

  it('shows a value as a collapsible tree', async () => {
    const [, card] = await ran({ data: [{ shop: 'north', prices: [3, { deep: true }] }] });
    expect(within(card).getByText('shop:')).toBeTruthy();
    expect(within(card).queryByText('deep:')).toBeNull();
    for (const name of ['prices:', '1:']) {
      const branch = within(card).getByText(name).closest('details');
      unfold(branch as HTMLDetailsElement);
    }
    expect(within(card).getByText('deep:')).toBeTruthy();
    expect(within(card).getByText('true')).toBeTruthy();
    const result = within(card).getByText('Details:').closest('details') as HTMLDetailsElement;
    expect(result.open).toBe(false);
    unfold(result);
    expect(within(result).getByText('runs:')).toBeTruthy();
  });

  const output = (): HTMLElement => screen.getByRole('group', { name: 'Output' });

  it('shows the beginning of a long output, and all of it when asked', async () => {
    const lines = Array.from({ length: 60 }, (_, number) => `line ${number}`);
    await ran({ output: lines.join('\n') });
    expect(output().textContent).toContain('line 0');
    expect(output().textContent).not.toContain('line 59');
    fireEvent.click(button('Show all 60 lines'));
    expect(output().textContent).toBe(lines.join('\n'));
    expect(document.activeElement).toBe(output());
    expect(screen.queryByRole('button', { name: /Show all/ })).toBeNull();
  });

  it('requests the full text of a truncated output', async () => {
    const [stage] = await ran({ output: 'line 0\n…', artifact: 'f', total_lines: 4210 });
    stage.api.artifact = name =>
      Promise.resolve({ size: 9, text: () => Promise.resolve(`all of ${name}`) } as Blob);
    fireEvent.click(button('Show all 4,210 lines'));
    await stage.settle();
    expect(output().textContent).toBe('all of f');
    expect(document.activeElement).toBe(output());
  });
});

describe('what a turn changed', () => {
  it('is undone in the panel, which says so', async () => {
    const stage = new Stage();
    stage.api.combinedChanges = () => Promise.resolve(stage.undone.length === 0 ? [NET] : []);
    await stage.say('Add a cell.');
    await stage.happens(CALL, CHANGE, RESULT, DONE);
    const changes = screen.getByRole('group', { name: 'Changes' });
    expect(changes.textContent).toContain('1 cell changed');
    const undo = within(changes).getByRole('button', { name: 'Undo' });
    undo.focus();
    fireEvent.click(undo);
    await stage.settle();
    expect(stage.undone).toEqual([{ 7: ['z'] }]);
    expect(changes.textContent).toBe('1 cell undone.');
    expect(document.activeElement).toBe(changes);
  });
});

describe('an error', () => {
  it.each([
    ['model_unauthorized', ['Connect a model', 'Retry']],
    ['model_failed', ['Retry']],
    ['no_model', ['Connect a model', 'Retry']]
  ])('says what to do: %s', async (code, steps) => {
    const stage = new Stage();
    await stage.say('Hello?');
    await stage.happens(problem(code), FAILED);
    const alert = screen.getByRole('alert');
    expect(alert.textContent).toContain('It failed.Wait.');
    const buttons = within(alert).getAllByRole('button');
    expect(buttons.map(each => each.textContent)).toEqual(steps);
  });

  it('sends the message again', async () => {
    const stage = new Stage();
    await stage.say('Hello');
    await stage.happens(problem('model_failed'), FAILED);
    fireEvent.click(button('Retry'));
    await stage.settle();
    expect(stage.sent[1]).toMatchObject({ message: 'Hello', notebook: 'a.ipynb' });
    expect(document.activeElement).toBe(box());
  });

  it('continues the turn', async () => {
    const stage = new Stage();
    await stage.say('Look.');
    await stage.happens(written('First a look.'), problem('model_failed'), FAILED);
    fireEvent.click(button('Continue'));
    await stage.settle();
    expect(stage.sent[1]).toMatchObject({ message: 'Continue.', notebook: 'a.ipynb' });
  });

  it('links to the models if none is connected', async () => {
    const stage = new Stage();
    let ran = 0;
    stage.commands.addCommand('tk-ai:connect', { execute: () => ran++ });
    await stage.say('Hello');
    await stage.happens(problem('no_model'), FAILED);
    fireEvent.click(button('Connect a model'));
    expect(ran).toBe(1);
  });

  it('of reading a chat can be retried', async () => {
    const stage = new Stage();
    const read = stage.api.chat;
    stage.chats = [info('c', 'Hello')];
    stage.past = story({ ...MESSAGE, text: 'Are you there?' }, written('Hello.'), DONE);
    stage.api.chat = () => Promise.reject(unreachable());
    act(() => stage.controller.open('c'));
    await stage.settle();
    expect(screen.queryByText('Hello.')).toBeNull();
    const reconnect = within(screen.getByRole('alert')).getByRole('button', { name: 'Reconnect' });
    Object.assign(stage.api, { chat: read });
    fireEvent.click(reconnect);
    await stage.settle();
    expect(screen.getByText('Hello.')).toBeTruthy();
    expect(screen.queryByRole('alert')).toBeNull();
  });
});

describe('an empty chat', () => {
  it('suggests prompts for the notebook', async () => {
    const stage = new Stage();
    await stage.settle();
    expect(button('Run all cells and summarize the results')).toBeTruthy();
    fireEvent.click(button('Plot the most interesting part of sales'));
    await stage.settle();
    expect(stage.sent).toMatchObject([{ message: 'Plot the most interesting part of sales' }]);
  });

  it('suggests to fix a failed cell', async () => {
    const stage = new Stage();
    await stage.settle();
    Object.assign(stage.notebook, {
      promptSubjects: { failed: { id: 'y', index: 1, line: '1 / 0' }, table: null }
    });
    const seen = { notebook: 'a.ipynb', cell: null, selected: [] };
    act(() => stage.store.update(state => ({ ...state, seen })));
    expect(screen.queryByRole('button', { name: /Run all cells/ })).toBeNull();
    fireEvent.click(button('Fix the failing cell 2'));
    await stage.settle();
    expect(stage.sent).toMatchObject([{ message: 'Fix the failing cell 2', notebook: 'a.ipynb' }]);
  });

  it('offers the tour without a model, and a way to connect one', async () => {
    const stage = new Stage();
    const models = { provider: 'tour', label: 'The tour', models: [] as string[] };
    stage.api.models = () => Promise.resolve(models as unknown as ModelsInfo);
    await act(() => stage.services.chats.refresh());
    stage.api.connection = () => Promise.resolve({ allowed: true, stored: null, models } as never);
    const services = { ...stage.services, controller: stage.controller };
    stage.commands.addCommand('tk-ai:connect', {
      execute: () => showContent(services, 'Connect a model', () => <Connect />)
    });
    fireEvent.click(button('Connect a model'));
    const dialog = await waitFor(() => {
      const shown = document.querySelector<HTMLElement>('.jp-Dialog');
      expect(shown?.textContent).toContain('ANTHROPIC_API_KEY');
      return shown as HTMLElement;
    });
    expect(dialog.textContent).toContain('No model is connected. The tour answers.');
    // Enter in a field submits the form: the dialog stays open.
    fireEvent.keyDown(within(dialog).getByLabelText('API key'), { key: 'Enter' });
    expect(document.querySelector('.jp-Dialog')).toBe(dialog);
    fireEvent.click(dialog.querySelector('.jp-mod-reject') as HTMLElement);
    await stage.settle();
    fireEvent.click(button('Take the tour'));
    await stage.settle();
    expect(stage.sent).toMatchObject([{ message: 'Take the tour' }]);
  });
});
