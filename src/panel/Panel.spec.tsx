import { Notification } from '@jupyterlab/apputils';
import { act, cleanup, fireEvent, screen, within } from '@testing-library/react';

import { unreachable } from '../api/client';
import type { ModelsInfo } from '../api/events';
import { CALL, CHANGE, DONE, MESSAGE, PLANNED, RESULT, story } from '../testing/events';
import { Stage } from '../testing/panel';
import { box, button, choose, goes, info, type, unfold } from '../testing/screen';

afterEach(() => {
  cleanup();
  jest.restoreAllMocks();
});

describe('the cards', () => {
  it('show the progress of a call, and expand to its result', async () => {
    const stage = new Stage();
    await stage.say('Add a cell.');
    await stage.happens({ ...CALL, arguments: { source: 'x = 1' } });
    expect(screen.getByRole('img', { name: 'Running' })).toBeTruthy();
    await stage.happens({
      kind: 'tool_progress',
      call: 'k',
      message: '2 of 3'
    });
    expect(screen.getAllByText('2 of 3').length).toBeGreaterThan(0);
    await stage.happens(CHANGE, { ...RESULT, seconds: 1.5 }, DONE);
    const card = stage.node.querySelector('.tk-Call') as HTMLElement;
    expect(within(card).getByText('Added a cell')).toBeTruthy();
    expect(within(card).getByText('+1')).toBeTruthy();
    expect(within(card).getByText('1.5 s')).toBeTruthy();
    const details = card.querySelector('details') as HTMLDetailsElement;
    unfold(details);
    await stage.settle();
    expect(within(card).getByRole('group', { name: 'Lines' }).textContent).toContain('x = 1');
    fireEvent.click(within(card).getByRole('button', { name: 'Show cell in a.ipynb' }));
    expect(stage.revealed).toEqual(['z']);
  });

  it('show what Claude wrote, thought and noticed, and which turns were replaced', async () => {
    const stage = new Stage();
    await stage.say('Hello');
    await stage.happens(
      { kind: 'thinking', block: 0, text: 'Hm' },
      { kind: 'text', block: 1, text: 'I look ' },
      { kind: 'text', block: 1, text: 'at it.' },
      { kind: 'notice', text: 'The kernel was started.' },
      DONE
    );
    expect(screen.getByText('I look at it.')).toBeTruthy();
    expect(screen.getByText('Hm')).toBeTruthy();
    expect(screen.getByText('The kernel was started.')).toBeTruthy();
  });
});

describe('the box', () => {
  it('shows each key at once, and sends with Enter', async () => {
    const stage = new Stage();
    type('He');
    expect(box().value).toBe('He');
    type('Hello');
    fireEvent.keyDown(box(), { key: 'Enter', shiftKey: true });
    expect(stage.sent).toEqual([]);
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent).toEqual([
      { message: 'Hello', mode: 'ask', notebook: 'a.ipynb', active_cell: 'x' }
    ]);
    expect(box().value).toBe('');
  });

  it('offers the settings and commands of the agent that answers, and sends what is chosen', async () => {
    const stage = new Stage({
      models: { models: ['m', 'n'], model: 'm' } as unknown as ModelsInfo
    });
    await stage.say('Go');
    const choices = ['low', 'high'].map(value => ({ value, name: `${value} effort` }));
    await stage.happens(
      {
        kind: 'offer',
        settings: [{ id: 'e', name: 'Effort', value: 'low', choices }],
        commands: [{ name: 'shout', description: 'Say it louder' }]
      },
      DONE
    );
    const effort = screen.getByRole<HTMLSelectElement>('combobox', { name: 'Effort' });
    expect(effort.value).toBe('low');
    fireEvent.change(effort, { target: { value: 'high' } });
    type('/sh');
    await stage.settle();
    expect(screen.getByRole('option', { name: /shout.*Say it louder/ })).toBeTruthy();
    type('/shout it');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent.at(-1)).toMatchObject({ message: '/shout it', options: { e: 'high' } });
    fireEvent.change(screen.getByRole('combobox', { name: 'Model' }), { target: { value: 'n' } });
    expect(screen.queryByRole('combobox', { name: 'Effort' })).toBeNull();
  });

  it('ignores a key that is held', async () => {
    const stage = new Stage();
    await stage.say('Go');
    type('Hello');
    fireEvent.keyDown(box(), { key: 'Enter', repeat: true });
    fireEvent.keyDown(box(), { key: 'Escape', repeat: true });
    await stage.settle();
    expect([stage.sent.length, stage.stopped, box().value]).toEqual([1, [], 'Hello']);
  });

  it('sends a pasted image with its message, and leaves the focus where it is then', async () => {
    const stage = new Stage();
    const files = [new File(['bytes'], 'plot.png', { type: 'image/png' })];
    const clipboardData = { files, types: ['Files'] };
    type('Look');
    fireEvent.paste(box(), { clipboardData });
    fireEvent.keyDown(box(), { key: 'Enter' });
    fireEvent.paste(box(), { clipboardData });
    act(() => button('History').focus());
    expect(await screen.findByRole('button', { name: 'Remove plot.png' })).toBeTruthy();
    expect(stage.sent).toMatchObject([{ message: 'Look', attachments: [{ title: 'plot.png' }] }]);
    expect(document.activeElement).toBe(button('History'));
  });

  it.each([
    [['text/plain', 'text/html', 'text/rtf', 'Files'], 'cells of a spreadsheet', false],
    [['text/html', 'Files'], 'a picture of a page', true],
    [['text/plain', 'Files'], 'a file with its name', true],
    [['Files'], 'a picture', true]
  ])('takes %j, which is %s, as a picture: %j', async (types, _, isPicture) => {
    const stage = new Stage();
    const files = [new File(['bytes'], 'plot.png', { type: 'image/png' })];
    const inserts = fireEvent.paste(box(), { clipboardData: { files, types } });
    expect(inserts).toBe(!isPicture);
    if (isPicture) {
      expect(await screen.findByRole('button', { name: 'Remove plot.png' })).toBeTruthy();
    } else {
      await stage.settle();
      expect(stage.controller.draft).toMatchObject({ attached: [] });
    }
  });

  it('sends with Ctrl+Enter where the person prefers that', async () => {
    const stage = new Stage();
    act(() =>
      stage.store.update(state => ({
        ...state,
        preferences: { ...state.preferences, sendWith: 'Accel Enter' }
      }))
    );
    type('Hello');
    fireEvent.keyDown(box(), { key: 'Enter' });
    fireEvent.keyDown(box(), { key: 'Enter', ctrlKey: true });
    await stage.settle();
    expect(stage.sent).toHaveLength(1);
  });

  it('restores a message that was not accepted, and shows why', async () => {
    const stage = new Stage();
    stage.taking = () => Promise.reject(unreachable());
    type('Hello');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(box().value).toBe('Hello');
    const dismiss = within(screen.getByRole('alert')).getByRole('button', { name: 'Dismiss' });
    dismiss.focus();
    fireEvent.click(dismiss);
    await stage.settle();
    expect(screen.queryByRole('alert')).toBeNull();
    expect(document.activeElement).toBe(box());
  });

  it('edits an earlier message, above the draft', async () => {
    const stage = new Stage();
    await stage.say('First');
    await stage.happens(DONE);
    type('Half a th');
    fireEvent.click(button('Edit and send again'));
    expect(box().value).toBe('First\n\nHalf a th');
    expect(screen.getByText('Instead of “First”')).toBeTruthy();
    type('Better');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent[1]).toMatchObject({ message: 'Better', replaces: 't' });
    expect(box().value).toBe('');
    expect(screen.queryByText('Instead of “First”')).toBeNull();
  });

  it('writes a new message once the chip is removed', async () => {
    const stage = new Stage();
    await stage.say('First');
    await stage.happens(DONE);
    fireEvent.click(button('Edit and send again'));
    fireEvent.click(button('Remove Instead of “First”'));
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent[1]).not.toHaveProperty('replaces');
  });

  it('sends changes to a plan, once', async () => {
    const stage = new Stage();
    await stage.say('Plan it.');
    await stage.happens(PLANNED);
    fireEvent.click(button('Change the plan…'));
    expect(document.activeElement).toBe(box());
    expect(screen.getByText('Changes to the plan')).toBeTruthy();
    type('Without pandas');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.plans).toEqual([['t', { answer: 'reject', words: 'Without pandas' }]]);
    expect(box().value).toBe('');
    stage.turn('u');
    await stage.happens({ ...MESSAGE, text: 'Without pandas' });
    expect(screen.queryByText('Changes to the plan')).toBeNull();
    type('Hello');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent.at(-1)).toMatchObject({ message: 'Hello' });
  });

  it('stops the turn with Escape, and sets the mode of the next message', async () => {
    const stage = new Stage();
    await stage.say('Go');
    fireEvent.keyDown(box(), { key: 'Escape' });
    await stage.settle();
    expect(stage.stopped).toEqual([undefined]);
    const mode = screen.getByRole<HTMLSelectElement>('combobox', { name: 'Mode' });
    fireEvent.change(mode, { target: { value: 'plan' } });
    expect(mode.value).toBe('plan');
  });

  it('leaves out removed context', async () => {
    const stage = new Stage();
    fireEvent.click(button('Remove a.ipynb'));
    type('Hello');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent).toEqual([{ message: 'Hello', mode: 'ask' }]);
  });
});

describe('a file that cannot be attached', () => {
  it('is shown until it is dismissed', async () => {
    const stage = new Stage();
    act(() => stage.controller.attach([{ name: 'paper.pdf', why: 'no image' }]));
    await stage.settle();
    expect(screen.getByText(/paper.pdf is not an image/)).toBeTruthy();
    fireEvent.click(button('Dismiss'));
    expect(screen.queryByText(/no picture/)).toBeNull();
    expect(document.activeElement).toBe(box());
  });
});

describe('the suggestions', () => {
  it('are cells by @, chosen by the keyboard', async () => {
    const stage = new Stage();
    type('Look at @');
    await stage.settle();
    const list = within(screen.getByRole('listbox', { name: 'Suggestions' }));
    const options = list.getAllByRole('option').map(each => each.textContent);
    expect(options).toEqual(['Cell 1import pandas', 'Cell 2df.plot()']);
    fireEvent.keyDown(box(), { key: 'ArrowDown' });
    expect(box().getAttribute('aria-activedescendant')).toBe(
      list.getByRole('option', { selected: true }).id
    );
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(box().value).toBe('Look at @2 ');
    expect(screen.queryByRole('listbox')).toBeNull();
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent[0]?.attachments).toEqual([{ kind: 'cell', cell: 'y', title: 'Cell 2' }]);
  });

  it('are commands by /, and go with Escape', async () => {
    const stage = new Stage();
    type('/p');
    await stage.settle();
    fireEvent.keyDown(box(), { key: 'Escape' });
    expect(screen.queryByRole('listbox')).toBeNull();
    expect(stage.stopped).toEqual([]);
    type('/pl');
    await stage.settle();
    fireEvent.keyDown(box(), { key: 'Tab' });
    await stage.settle();
    expect(box().value).toBe('Plot ');
  });
});

describe('the history', () => {
  const open = async (): Promise<Stage> => {
    const stage = new Stage();
    stage.chats = [info('c', 'Sales by region'), info('d', 'Weather')];
    fireEvent.click(button('History'));
    await stage.settle();
    return stage;
  };

  it('finds a chat and opens it', async () => {
    const stage = await open();
    const search = screen.getByRole('searchbox', { name: 'Search chats' });
    expect(document.activeElement).toBe(search);
    const result = within(screen.getByRole('region', { name: 'History' })).getByRole('status');
    expect(result.textContent).toBe('');
    fireEvent.change(search, { target: { value: 'rain' } });
    expect(result.textContent).toBe('No chat matches “rain”.');
    fireEvent.change(search, { target: { value: 'weath' } });
    expect(result.textContent).toBe('1 chat');
    expect(screen.getAllByRole('listitem')).toHaveLength(1);
    fireEvent.click(stage.node.querySelector('.tk-Entry-open') as HTMLElement);
    await stage.settle();
    expect(stage.controller.chat.id).toBe('d');
    expect(stage.node.querySelector('.tk-Title')?.textContent).toBe('Weather');
    expect(document.activeElement).toBe(box());
  });

  it('closes with Escape, and keeps the context of the message', async () => {
    const stage = new Stage();
    type('Look at @');
    await stage.settle();
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    fireEvent.click(button('History'));
    fireEvent.keyDown(screen.getByRole('searchbox'), { key: 'Escape' });
    expect(document.activeElement).toBe(box());
    expect(box().value).toBe('Look at @1 ');
    expect(within(goes()).getAllByRole('button', { name: 'Remove Cell 1' })).toHaveLength(2);
  });

  /** Enter a title in the dialog. */
  const entitle = async (stage: Stage, value: string): Promise<void> => {
    await stage.settle();
    fireEvent.change(screen.getByLabelText('Title'), { target: { value } });
    fireEvent.click(document.querySelector('.jp-Dialog .jp-mod-accept') as HTMLElement);
    await stage.settle();
  };

  it('shows why a chat cannot be renamed', async () => {
    const stage = new Stage();
    stage.chats = [info('c', 'About apples')];
    stage.api.rename = () => Promise.reject(unreachable());
    await stage.say('About apples');
    await stage.happens(DONE);
    const shown = jest.spyOn(Notification, 'error').mockReturnValue('');
    fireEvent.click(button('About apples'));
    await entitle(stage, 'About pears');
    expect(shown.mock.calls[0]?.[0]).toContain('The server cannot be reached.');
    expect(button('About apples')).toBeTruthy();
  });

  it('exports a chat as a file', async () => {
    const stage = await open();
    const saved: (string | Blob)[] = [];
    stage.api.export = (id, format) => Promise.resolve(new Blob([`${id} as ${format}`]));
    URL.createObjectURL = content => `blob:${saved.push(content as Blob)}`;
    URL.revokeObjectURL = () => undefined;
    jest.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
      this: HTMLAnchorElement
    ) {
      saved.push(this.download);
    });
    choose('More about Weather', 'Export as Markdown');
    await stage.settle();
    const [content, name] = saved;
    expect([(content as Blob).size, name]).toEqual(['d as markdown'.length, 'Weather.md']);
  });

  it('renames a chat', async () => {
    const stage = await open();
    choose('More about Weather', 'Rename…');
    await entitle(stage, 'Climate');
    expect(stage.renamed).toEqual([['d', 'Climate']]);
  });

  it('deletes a chat after a confirmation, also the current one', async () => {
    const stage = await open();
    fireEvent.click(stage.node.querySelector('.tk-Entry-open') as HTMLElement);
    await stage.settle();
    fireEvent.click(button('History'));
    await stage.settle();
    choose('More about Sales by region', 'Delete…');
    await stage.settle();
    fireEvent.click(document.querySelector('.jp-Dialog .jp-mod-warn') as HTMLElement);
    await stage.settle();
    expect(stage.removed).toEqual(['c']);
    expect(screen.getAllByRole('listitem')).toHaveLength(1);
    expect(stage.controller.chat.id).toBeNull();
    expect(document.activeElement).toBe(screen.getByRole('searchbox'));
  });
});

describe('a connection that is lost', () => {
  it('is shown only while something is expected of it', async () => {
    const stage = new Stage();
    stage.chats = [info('c', 'Idle')];
    stage.past = story(MESSAGE, { kind: 'began' }, DONE);
    act(() => stage.controller.open('c'));
    await stage.settle();
    act(() => stage.server.cut());
    await stage.settle();
    expect(screen.queryByRole('button', { name: 'Reconnect' })).toBeNull();
    // The server takes a message, of which no event arrives.
    stage.turn('u');
    type('Are you there?');
    fireEvent.keyDown(box(), { key: 'Enter' });
    await stage.settle();
    expect(stage.sent).toHaveLength(1);
    fireEvent.click(button('Reconnect'));
    await stage.settle();
    expect(screen.queryByRole('button', { name: 'Reconnect' })).toBeNull();
  });

  it('is shown with a reconnect button until it is back', async () => {
    const stage = new Stage();
    await stage.say('Hello');
    act(() => stage.server.cut());
    await stage.settle();
    fireEvent.click(button('Reconnect'));
    await stage.settle();
    expect(screen.queryByRole('alert')).toBeNull();
    await stage.happens({ kind: 'text', block: 0, text: 'There.' });
    expect(screen.getByText('There.')).toBeTruthy();
  });
});
