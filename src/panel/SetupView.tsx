import type { TranslationBundle } from '@jupyterlab/translation';
import { type JSX, type ReactNode, useCallback, useEffect, useId, useRef, useState } from 'react';

import { ApiError } from '../api/client';
import type {
  ChatSetupInfo,
  ErrorInfo,
  InstructionsInfo,
  PromptInfo,
  ServersInfo,
  ServerStatus,
  StandingInfo
} from '../api/events';
import { visible } from '../common/visible';
import type { SetupApi } from './setupApi';

interface IProps {
  api: Pick<SetupApi, 'read' | 'switchServer' | 'approvals' | 'removeApproval'>;
  /** Returns the title of a chat by its id; undefined if it is not known. */
  titleOf: (chat: string) => string | undefined;
  /** Opens a file below the root. */
  onOpen: (path: string) => void;
  trans: TranslationBundle;
}

/** What chats are set up with: instructions, prompts, MCP servers and standing approvals. */
export function SetupView({ api, titleOf, onOpen, trans }: IProps): JSX.Element {
  const [setup, setSetup] = useState<ChatSetupInfo | null>(null);
  const [approvals, setApprovals] = useState<readonly StandingInfo[]>([]);
  const [problem, setProblem] = useState<ErrorInfo | null>(null);
  const queue = useRef(Promise.resolve());
  /** Run work after what is queued, so that the last answer is the newest one. */
  const attempt = useCallback((work: () => Promise<void>): void => {
    queue.current = queue.current
      .then(work)
      .catch((error: unknown) => setProblem(problemOf(error)));
  }, []);
  const act = (work: () => Promise<void>): void => {
    // Here: an error is not cleared by the success of what is queued after it.
    setProblem(null);
    attempt(work);
  };
  useEffect(() => {
    attempt(async () => {
      const [found, given] = await Promise.all([api.read(), api.approvals()]);
      setSetup(found);
      setApprovals(given);
    });
  }, [api, attempt]);
  return (
    <div className="tk-Form">
      {problem !== null && (
        <div className="tk-Problem" role="alert">
          <div className="tk-Problem-message">{problem.message}</div>
          <div className="tk-Problem-hint">{problem.hint}</div>
        </div>
      )}
      {setup === null ? (
        problem === null && trans.__('Loading…')
      ) : (
        <>
          <Section title={trans.__('Instructions')}>
            <Instructions {...setup} onOpen={onOpen} trans={trans} />
          </Section>
          <Section title={trans.__('Prompts')}>
            <Prompts prompts={setup.prompts} trans={trans} />
          </Section>
          <Section title={trans.__('MCP servers')}>
            <Servers
              servers={setup.servers}
              trans={trans}
              onSwitch={(name, enabled) =>
                act(async () => setSetup(await api.switchServer(name, enabled)))
              }
            />
          </Section>
          <Section title={trans.__('Standing approvals')}>
            <Approvals
              approvals={approvals}
              titleOf={titleOf}
              trans={trans}
              onRemove={id => act(async () => setApprovals(await api.removeApproval(id)))}
            />
          </Section>
        </>
      )}
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }): JSX.Element {
  const id = useId();
  return (
    <section aria-labelledby={id} tabIndex={-1}>
      <h3 id={id}>{title}</h3>
      {children}
    </section>
  );
}

interface IInstructionsProps {
  instructions: InstructionsInfo | null;
  names: readonly string[];
  onOpen: (path: string) => void;
  trans: TranslationBundle;
}

function Instructions(props: IInstructionsProps): JSX.Element {
  const { instructions, names, onOpen, trans } = props;
  if (instructions === null) {
    const known = names.join(', ');
    return (
      <div className="tk-Form-note">
        {trans.__('The root folder has no file of these: %1.', known)}
      </div>
    );
  }
  const { path, characters, limit } = instructions;
  return (
    <>
      <Link path={path} onOpen={onOpen} trans={trans} />
      <div className="tk-Form-note">
        {trans.__('A chat reads it when its agent starts.')}{' '}
        {characters > limit &&
          trans.__(
            'It is too long (%1 characters): %2 are read, without the middle.',
            characters.toLocaleString(),
            limit.toLocaleString()
          )}
      </div>
    </>
  );
}

interface IPromptsProps {
  prompts: readonly PromptInfo[];
  trans: TranslationBundle;
}

function Prompts({ prompts, trans }: IPromptsProps): JSX.Element {
  if (prompts.length === 0) {
    const text = trans.__(
      'None. Put a Markdown file into .claude/commands, in the root folder or in your home folder.'
    );
    return <div className="tk-Form-note">{text}</div>;
  }
  return (
    <ul>
      {prompts.map(({ name, hint, description, origin, path }) => (
        <li key={name} className="tk-Form-row">
          <span className="tk-Form-grow">
            <code>
              /{name} {visible(hint)}
            </code>{' '}
            {visible(description)}
          </span>
          {origin === 'user' ? (
            <span className="tk-Form-note">{trans.__('Yours')}</span>
          ) : (
            <span className="tk-Form-note" title={path}>
              {trans.__('Project')}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

interface IServersProps {
  servers: ServersInfo;
  onSwitch: (name: string, enabled: boolean) => void;
  trans: TranslationBundle;
}

function Servers({ servers, onSwitch, trans }: IServersProps): JSX.Element {
  const { allowed, file, problem } = servers;
  if (!allowed) {
    const text = trans.__('You cannot use MCP servers of your own here. Ask your administrator.');
    return <div className="tk-Form-note">{text}</div>;
  }
  return (
    <>
      <ul>
        {servers.servers.map(server => (
          <Server key={server.name} server={server} onSwitch={onSwitch} trans={trans} />
        ))}
      </ul>
      {problem !== '' && (
        <div className="tk-Form-error" role="alert">
          {trans.__('%1 cannot be used: %2.', file, problem)}
        </div>
      )}
      <div className="tk-Form-note">
        {trans.__('They are configured in %1, in the format of other MCP clients.', file)}
      </div>
    </>
  );
}

interface IServerProps {
  server: ServerStatus;
  onSwitch: (name: string, enabled: boolean) => void;
  trans: TranslationBundle;
}

function Server({ server, onSwitch, trans }: IServerProps): JSX.Element {
  const { name, place, enabled, problem } = server;
  return (
    <li>
      <label className="tk-Form-row">
        <input
          type="checkbox"
          checked={enabled}
          onChange={event => onSwitch(name, event.currentTarget.checked)}
        />
        <span className="tk-Form-grow">
          {visible(name)} <span className="tk-Form-note">{visible(place)}</span>
        </span>
        <span className="tk-Form-note">{enabled ? trans.__('On') : trans.__('Off')}</span>
      </label>
      {problem !== '' && <div className="tk-Form-error">{visible(problem)}</div>}
    </li>
  );
}

interface IApprovalsProps {
  approvals: readonly StandingInfo[];
  titleOf: (chat: string) => string | undefined;
  onRemove: (id: string) => void;
  trans: TranslationBundle;
}

function Approvals({ approvals, titleOf, onRemove, trans }: IApprovalsProps): JSX.Element {
  if (approvals.length === 0) {
    return (
      <div className="tk-Form-note">
        {trans.__('None. What a mode asks about is asked each time.')}
      </div>
    );
  }
  return (
    <ul>
      {approvals.map(approval => {
        const what = whatOf(approval, trans);
        const where = whereOf(approval, titleOf, trans);
        return (
          <li key={approval.id} className="tk-Form-row">
            <span className="tk-Form-grow">
              {what} <span className="tk-Form-note">{where}</span>
            </span>
            <button
              type="button"
              className="tk-Button"
              aria-label={trans.__('Remove: %1, %2', what, where)}
              onClick={() => onRemove(approval.id)}
            >
              {trans.__('Remove')}
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function whatOf({ tool, effect }: StandingInfo, trans: TranslationBundle): string {
  if (tool !== null) {
    return visible(tool);
  }
  return effect === 'EXECUTE' ? trans.__('Run code') : trans.__('Edit notebooks');
}

function whereOf(
  { notebook, caller, author, interface: kind }: StandingInfo,
  titleOf: IProps['titleOf'],
  trans: TranslationBundle
): string {
  if (notebook !== null) {
    return trans.__('in %1, by all your chats and agents', visible(notebook));
  }
  const title = kind === 'chat' && caller !== null ? titleOf(caller) : undefined;
  return title === undefined
    ? trans.__('by %1', visible(author))
    : trans.__('in the chat “%1”', title);
}

interface ILinkProps {
  path: string;
  onOpen: (path: string) => void;
  trans: TranslationBundle;
}

function Link({ path, onOpen, trans }: ILinkProps): JSX.Element {
  return (
    <button
      type="button"
      className="tk-Link"
      aria-label={trans.__('Open %1', path)}
      onClick={() => onOpen(path)}
    >
      {path}
    </button>
  );
}

function problemOf(error: unknown): ErrorInfo {
  return error instanceof ApiError
    ? error.problem
    : { code: 'failed', message: String(error), hint: '', retryable: false };
}
