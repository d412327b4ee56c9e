import { nullTranslator } from '@jupyterlab/translation';
import { act, fireEvent, render, screen, within } from '@testing-library/react';

import { ApiError } from '../api/client';
import type { ChatInfo, ChatSetupInfo, McpServerInfo, StandingApprovalInfo } from '../api/events';
import { createStore } from '../state/app';
import { type IPanelContext, ServicesProvider } from './services';
import { SetupView } from './SetupView';

const SERVER: McpServerInfo = {
  name: 'mine',
  place: 'python',
  enabled: true,
  problem: ''
};

const SETUP: ChatSetupInfo = {
  instructions: 'AGENTS.md',
  prompts: [
    {
      name: 'review',
      description: 'Review a cell',
      hint: '[cell]',
      origin: 'project',
      path: '.claude/commands/review.md'
    },
    { name: 'mine', description: '', hint: '', origin: 'user', path: 'x' }
  ],
  servers: { allowed: true, file: '/home/me/mcp.json', problem: '', servers: [SERVER] }
};

const APPROVAL: StandingApprovalInfo = {
  id: 'a1',
  effect: 'WRITE',
  tool: null,
  notebook: null,
  caller: 'c',
  author: 'Claude',
  interface: 'chat',
  created: 0
};

/** A rendered view with a fake server. */
class Page {
  setup = SETUP;
  approvals: readonly StandingApprovalInfo[] = [];
  readonly removed: string[] = [];
  readonly opened: string[] = [];
  fails: ApiError | null = null;

  async open(): Promise<void> {
    const api = {
      setup: () => Promise.resolve(this.setup),
      approvals: () => Promise.resolve(this.approvals),
      removeApproval: (id: string) => {
        this.removed.push(id);
        return this.fails === null
          ? Promise.resolve(this.approvals.filter(each => each.id !== id))
          : Promise.reject(this.fails);
      }
    };
    const services = {
      chats: { api },
      trans: nullTranslator.load('tk-ai-extension'),
      commands: { execute: (_: string, { path }: { path: string }) => this.opened.push(path) },
      store: createStore({ chats: [{ id: 'c', title: 'Sales' } as ChatInfo] })
    } as unknown as IPanelContext;
    render(
      <ServicesProvider value={services}>
        <SetupView close={() => undefined} />
      </ServicesProvider>
    );
    await settle();
  }
}

const settle = (): Promise<void> => act(async () => Promise.resolve());
const region = (name: string): HTMLElement => screen.getByRole('region', { name });

describe('the instructions', () => {
  it('are named and can be opened', async () => {
    const page = new Page();
    await page.open();
    fireEvent.click(screen.getByRole('button', { name: 'Open AGENTS.md' }));
    expect(page.opened).toEqual(['AGENTS.md']);
  });

  it('are missed by their names', async () => {
    const page = new Page();
    page.setup = { ...SETUP, instructions: null };
    await page.open();
    expect(region('Instructions').textContent).toContain('AGENTS.md or CLAUDE.md');
  });
});

describe('the prompts', () => {
  it('say where they come from', async () => {
    await new Page().open();
    const [review, mine] = within(region('Prompts')).getAllByRole('listitem');
    expect(review?.textContent).toBe('/review [cell] Review a cellProject');
    expect(mine?.textContent).toContain('Yours');
  });
});

describe('the MCP servers', () => {
  it('say whether chats use them', async () => {
    const page = new Page();
    const off: McpServerInfo = { ...SERVER, name: 'b', enabled: false };
    page.setup = { ...SETUP, servers: { ...SETUP.servers, servers: [SERVER, off] } };
    await page.open();
    const items = within(region('MCP servers')).getAllByRole('listitem');
    expect(items.map(item => item.textContent)).toEqual(['mine pythonOn', 'b pythonOff']);
  });

  it('show why one cannot be used', async () => {
    const page = new Page();
    const failed: McpServerInfo = { ...SERVER, name: 'b', problem: 'no program' };
    const servers = { ...SETUP.servers, servers: [SERVER, failed], problem: 'others can write it' };
    page.setup = { ...SETUP, servers };
    await page.open();
    const text = region('MCP servers').textContent;
    expect(text).toContain('no program');
    expect(screen.getByRole('alert').textContent).toContain('others can write it');
  });

  it('say that they are forbidden', async () => {
    const page = new Page();
    page.setup = { ...SETUP, servers: { ...SETUP.servers, allowed: false, servers: [] } };
    await page.open();
    expect(region('MCP servers').textContent).toContain('Ask your administrator');
  });
});

describe('an error of the server', () => {
  it('is shown', async () => {
    const page = new Page();
    page.approvals = [APPROVAL];
    page.fails = new ApiError({ code: 'read_only', message: 'No.', hint: '', retryable: false });
    await page.open();
    fireEvent.click(within(region('Standing approvals')).getByRole('button'));
    await settle();
    expect(screen.getByRole('alert').textContent).toContain('No.');
  });
});

describe('standing approvals', () => {
  it('say what they let through, where, and can be removed', async () => {
    const page = new Page();
    page.approvals = [
      APPROVAL,
      { ...APPROVAL, id: 'a2', tool: 'insert_cell', caller: null, notebook: 'a.ipynb' },
      { ...APPROVAL, id: 'a3', effect: 'EXECUTE', caller: 'k', interface: 'mcp', author: 'Tool' }
    ];
    await page.open();
    const items = within(region('Standing approvals')).getAllByRole('listitem');
    expect(items.map(item => item.textContent)).toEqual([
      'Edit notebooks in the chat “Sales”Remove',
      'insert_cell in a.ipynb, by all your chats and agentsRemove',
      'Run code by ToolRemove'
    ]);
    const name = 'Remove: insert_cell, in a.ipynb, by all your chats and agents';
    fireEvent.click(screen.getByRole('button', { name }));
    await settle();
    expect(page.removed).toEqual(['a2']);
    expect(within(region('Standing approvals')).getAllByRole('listitem')).toHaveLength(2);
  });
});
