import { nullTranslator } from '@jupyterlab/translation';
import { act, fireEvent, render, screen, within } from '@testing-library/react';

import { ApiError, type INewConnection } from '../api/client';
import type { ConnectionInfo, ModelsInfo, StoredConnectionInfo } from '../api/events';
import { Connect } from './ConnectForm';
import { type IPanelContext, ServicesProvider } from './services';

const KEY = 'sk-ant-canary-0123456789';

const STORED: StoredConnectionInfo = {
  provider: 'compatible',
  base_url: 'https://gateway.example',
  model: 'claude-x',
  ending: '6789',
  in_force: true
};

function infoOf(
  stored: StoredConnectionInfo | null,
  more: Partial<ConnectionInfo> = {},
  models: Partial<ModelsInfo> = {}
): ConnectionInfo {
  const used = { label: 'The tour', ready: true, source: null, hint: '', ...models };
  return { allowed: true, stored, models: used as ModelsInfo, ...more };
}

/** A rendered form with a fake server. */
class Page {
  info = infoOf(null);
  answer: () => Promise<ConnectionInfo> = () => Promise.resolve(infoOf(STORED));
  readonly sent: INewConnection[] = [];
  changes = 0;
  deleted = 0;

  async open(): Promise<HTMLElement> {
    const api = {
      connection: () => Promise.resolve(this.info),
      connect: (connection: INewConnection) => {
        this.sent.push(connection);
        return this.answer();
      },
      disconnect: () => {
        this.deleted++;
        return Promise.resolve(infoOf(null));
      }
    };
    const services = {
      trans: nullTranslator.load('tk-ai-extension'),
      chats: { api, refresh: () => this.changes++ }
    } as unknown as IPanelContext;
    const { container } = render(
      <ServicesProvider value={services}>
        <Connect />
      </ServicesProvider>
    );
    await settle();
    return container;
  }
}

const settle = (): Promise<void> => act(async () => Promise.resolve());

function enter(label: string, value: string): HTMLInputElement {
  const input = screen.getByLabelText<HTMLInputElement>(label);
  fireEvent.change(input, { target: { value } });
  return input;
}

async function press(name: string): Promise<void> {
  fireEvent.click(screen.getByRole('button', { name }));
  await settle();
}

function choose(name: RegExp): void {
  fireEvent.click(screen.getByRole('radio', { name }));
}

function refuse(field: string | null, code = 'invalid_arguments'): () => Promise<ConnectionInfo> {
  const details = field === null ? {} : { details: { field } };
  const problem = { code, message: 'Refused.', hint: 'Copy it.', retryable: false, ...details };
  return () => Promise.reject(new ApiError(problem, 422));
}

describe('Connect', () => {
  it('sends a key to the server once, and shows its end only', async () => {
    const page = new Page();
    const container = await page.open();
    expect(document.activeElement).toBe(screen.getByRole('radio', { name: /Anthropic API/ }));
    const input = enter('API key', ` ${KEY} `);
    expect(input.type).toBe('password');
    expect(input.autocomplete).toBe('off');
    page.answer = () => Promise.resolve(infoOf({ ...STORED, provider: 'anthropic' }));
    await press('Connect');
    expect(page.sent).toEqual([{ provider: 'anthropic', secret: KEY, base_url: '', model: '' }]);
    expect(page.changes).toBe(1);
    expect(container.textContent).toContain('The key ends in …6789.');
    expect(container.innerHTML).not.toContain(KEY);
    const status = screen.getByRole('status');
    expect(status.textContent).toContain('Connected.');
    expect(document.activeElement).toBe(status);
    expect(screen.queryByLabelText('API key')).toBeNull();
  });

  it('has the fields of each provider, and keeps none of another', async () => {
    const page = new Page();
    await page.open();
    const fields = (): (string | null)[] =>
      [...document.querySelectorAll('label[for]')].map(label => label.textContent);
    enter('API key', KEY);
    choose(/Claude subscription/);
    expect(fields()).toEqual(['Token']);
    expect(screen.getByLabelText<HTMLInputElement>('Token').value).toBe('');
    choose(/Compatible endpoint/);
    expect(fields()).toEqual(['Base URL', 'Key or token', 'Model (optional)']);
    enter('Base URL', 'http://localhost:11434');
    enter('Model (optional)', 'qwen3:8b');
    await press('Connect');
    expect(page.sent[0]).toEqual({
      provider: 'compatible',
      secret: '',
      base_url: 'http://localhost:11434',
      model: 'qwen3:8b'
    });
  });

  it('names the invalid field, and moves the focus there', async () => {
    const page = new Page();
    await page.open();
    page.answer = refuse('secret');
    const input = enter('API key', KEY);
    await press('Connect');
    const alert = screen.getByRole('alert');
    expect(alert.textContent).toBe('Refused.Copy it.');
    expect(input.getAttribute('aria-invalid')).toBe('true');
    expect(input.getAttribute('aria-describedby')?.split(' ')).toContain(alert.id);
    expect(document.activeElement).toBe(input);
    // It can be corrected, and tried again.
    expect(input.value).toBe(KEY);
    page.answer = refuse(null, 'invalid_arguments');
    await press('Connect');
    expect(input.getAttribute('aria-invalid')).toBe('false');
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Connect' }));
    expect(page.changes).toBe(0);
  });

  it('is submitted by Enter once while it is tested', async () => {
    const page = new Page();
    await page.open();
    let end: (info: ConnectionInfo) => void = () => undefined;
    page.answer = () => new Promise(resolve => (end = resolve));
    const input = enter('API key', KEY);
    fireEvent.submit(input.form as HTMLFormElement);
    await settle();
    const busy = screen.getByRole('button', { name: 'Testing…' });
    expect(busy.getAttribute('aria-disabled')).toBe('true');
    fireEvent.submit(input.form as HTMLFormElement);
    expect(page.sent).toHaveLength(1);
    end(infoOf(STORED));
    await settle();
    expect(screen.getByRole('status').textContent).toContain('Connected.');
  });

  it('replaces a connection, and keeps its key if none is entered', async () => {
    const page = new Page();
    page.info = infoOf(STORED, {}, { label: 'A server', source: 'stored' });
    const container = await page.open();
    expect(container.textContent).toContain('Chats use: A server. It was connected here.');
    await press('Replace');
    expect(screen.getByLabelText<HTMLInputElement>('Base URL').value).toBe(STORED.base_url);
    const secret = screen.getByLabelText<HTMLInputElement>('Key or token');
    expect(secret.value).toBe('');
    const hint = document.getElementById(secret.getAttribute('aria-describedby') ?? '');
    expect(hint?.textContent).toContain('ends in 6789 for the same address');
    await press('Connect');
    expect(page.sent[0]).toMatchObject({ secret: null, model: 'claude-x' });
  });

  it('disconnects', async () => {
    const page = new Page();
    page.info = infoOf(STORED);
    await page.open();
    await press('Disconnect');
    expect([page.deleted, page.changes]).toEqual([1, 1]);
    const status = screen.getByRole('status');
    expect(status.textContent).toContain('Disconnected.');
    expect(document.activeElement).toBe(status);
  });

  it.each([
    ['environment', 'It is configured in the server’s environment.'],
    ['project', 'the file of keys that the server’s settings name']
  ])('says that the %s takes precedence', async (source, text) => {
    const page = new Page();
    page.info = infoOf({ ...STORED, in_force: false }, {}, { source });
    const container = await page.open();
    expect(container.textContent).toContain(text);
    expect(container.textContent).toContain('another source takes precedence');
  });

  it('shows whom to ask if it is not allowed', async () => {
    const page = new Page();
    page.info = infoOf(null, { allowed: false });
    const container = await page.open();
    expect(container.textContent).toContain(
      'You cannot connect a model here. Ask your administrator.'
    );
    expect(within(container).queryByRole('textbox')).toBeNull();
    expect(within(container).queryByRole('button')).toBeNull();
  });

  it('shows that the server cannot be reached', async () => {
    const page = new Page();
    page.info = Promise.reject(
      new ApiError({ code: 'unreachable', message: 'Gone.', hint: '', retryable: true })
    ) as unknown as ConnectionInfo;
    await page.open();
    expect(screen.getByRole('alert').textContent).toBe('Gone.');
  });
});
