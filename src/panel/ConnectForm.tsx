import type { TranslationBundle } from '@jupyterlab/translation';
import { type FormEvent, type JSX, useEffect, useId, useRef, useState } from 'react';

import type { INewConnection, Provider } from '../api/client';
import type { ConnectionInfo, ErrorInfo, StoredConnectionInfo } from '../api/events';
import { Button } from './controls';
import { Failure, problemOf } from './Problem';
import { useServices } from './services';

type FieldName = 'base_url' | 'secret' | 'model';

interface IField {
  name: FieldName;
  label: string;
  placeholder?: string;
  hint?: string;
  required?: boolean;
}

/** The connected model, and the form to connect, replace or disconnect one. */
export function Connect(): JSX.Element {
  const { chats, trans } = useServices();
  const { api } = chats;
  const [info, setInfo] = useState<ConnectionInfo | null>(null);
  const [problem, setProblem] = useState<ErrorInfo | null>(null);
  const [replaces, setReplaces] = useState(false);
  const [done, setDone] = useState<{ text: string } | null>(null);
  const status = useRef<HTMLDivElement>(null);

  useEffect(() => {
    void api.connection().then(setInfo, (error: unknown) => setProblem(problemOf(error)));
  }, [api]);
  // The pressed button is gone: the focus moves to its result.
  useEffect(() => {
    if (done !== null) {
      status.current?.focus();
    }
  }, [done]);

  const show = (found: ConnectionInfo, message: string): void => {
    setInfo(found);
    setProblem(null);
    setReplaces(false);
    setDone({ text: message });
    void chats.refresh();
  };
  const disconnect = async (): Promise<void> => {
    try {
      show(await api.disconnect(), trans.__('Disconnected.'));
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  if (info === null) {
    return (
      <div className="tk-Connect">
        {problem === null ? trans.__('Loading…') : <Failure problem={problem} />}
      </div>
    );
  }
  const { stored, models } = info;
  return (
    <div className="tk-Connect tk-Form">
      <div ref={status} role="status" tabIndex={-1}>
        {done !== null && <strong>{done.text} </strong>}
        {models.provider === 'tour'
          ? trans.__('No model is connected. The tour answers.')
          : trans.__('Chats use: %1.', models.label)}{' '}
        {sourceOf(info, trans)} {!models.ready && models.hint}
      </div>
      {stored !== null && <Stored stored={stored} />}
      {problem !== null && <Failure problem={problem} />}
      {!info.allowed && (
        <p>{trans.__('You cannot connect a model here. Ask your administrator.')}</p>
      )}
      {stored !== null && (
        <div className="tk-Form-row">
          {info.allowed && !replaces && (
            <Button onClick={() => setReplaces(true)}>{trans.__('Replace')}</Button>
          )}
          <Button onClick={() => void disconnect()}>{trans.__('Disconnect')}</Button>
        </div>
      )}
      {info.allowed && (stored === null || replaces) && (
        <ConnectForm
          stored={stored}
          connect={async connection => show(await api.connect(connection), trans.__('Connected.'))}
        />
      )}
      {info.allowed && (
        <p className="tk-Form-note">
          {trans.__('Environment variables such as %1 override this form.', 'ANTHROPIC_API_KEY')}
        </p>
      )}
    </div>
  );
}

interface IFormProps {
  stored: StoredConnectionInfo | null;
  /** Tests and stores a connection. */
  connect: (connection: INewConnection) => Promise<void>;
}

/** The form. What is entered stays in its fields, and is in no state. */
function ConnectForm({ stored, connect }: IFormProps): JSX.Element {
  const { trans } = useServices();
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  const [provider, setProvider] = useState((stored?.provider ?? 'anthropic') as Provider);
  const [busy, setBusy] = useState(false);
  const providers = providersOf(trans);
  const [problem, setProblem] = useState<ErrorInfo | null>(null);
  const { fields = [] } = providers.find(({ name }) => name === provider) ?? {};
  const wrong = problem === null ? null : (problem.details?.['field'] as FieldName | undefined);

  useEffect(() => {
    form.current?.querySelector<HTMLElement>('input:checked')?.focus();
  }, []);
  useEffect(() => {
    if (problem !== null) {
      const invalid = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
      (invalid ?? form.current?.querySelector<HTMLElement>('button[type="submit"]'))?.focus();
    }
  }, [problem]);

  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    if (busy) {
      return;
    }
    const entered = new FormData(event.currentTarget);
    const textOf = (name: FieldName): string => ((entered.get(name) ?? '') as string).trim();
    const secret = textOf('secret');
    setBusy(true);
    setProblem(null);
    try {
      await connect({
        provider,
        // The server keeps the stored key for the same provider and address only.
        secret: secret === '' && stored?.provider === provider ? null : secret,
        base_url: textOf('base_url'),
        model: textOf('model')
      });
    } catch (error) {
      setBusy(false);
      setProblem(problemOf(error));
    }
  };
  return (
    <form ref={form} className="tk-Form" noValidate onSubmit={event => void submit(event)}>
      <fieldset disabled={busy}>
        <legend>{trans.__('Provider')}</legend>
        {providers.map(({ name, label, note }) => (
          <label key={name} className="tk-Form-row">
            <input
              type="radio"
              name="provider"
              value={name}
              checked={name === provider}
              onChange={() => {
                setProvider(name);
                setProblem(null);
              }}
            />
            <span>
              {label} <span className="tk-Form-note">{note}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {fields.map(field => (
        // Another provider, other fields: what was entered for one is not sent to another.
        <Field
          key={`${provider} ${field.name}`}
          id={`${id}-${field.name}`}
          field={field}
          value={stored?.provider === provider ? valueOf(stored, field.name) : ''}
          keeps={field.name === 'secret' && stored?.provider === provider ? stored.ending : null}
          problem={wrong === field.name ? `${id}-problem` : null}
        />
      ))}
      {problem !== null && <Failure id={`${id}-problem`} problem={problem} />}
      <div className="tk-Form-row">
        <Button primary type="submit" aria-disabled={busy}>
          {busy ? trans.__('Testing…') : trans.__('Connect')}
        </Button>
        <span className="tk-Form-note" aria-live="polite">
          {busy && trans.__('One short message is sent to the provider.')}
        </span>
      </div>
    </form>
  );
}

interface IFieldProps {
  id: string;
  field: IField;
  value: string;
  /** The end of the stored key, which stays if the field is empty. */
  keeps: string | null;
  /** The id of the error about this field. */
  problem: string | null;
}

function Field({ id, field, value, keeps, problem }: IFieldProps): JSX.Element {
  const { trans } = useServices();
  const { name, label, placeholder, required = false } = field;
  const hint =
    keeps === null
      ? field.hint
      : trans.__('Leave it empty to keep the key that ends in %1 for the same address.', keeps);
  const describedBy = [...(problem === null ? [] : [problem]), ...(hint ? [`${id}-hint`] : [])];
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        name={name}
        className="tk-Form-input"
        type={name === 'secret' ? 'password' : 'text'}
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
        defaultValue={value}
        placeholder={placeholder}
        aria-required={required && keeps === null}
        aria-invalid={problem !== null}
        aria-describedby={describedBy.join(' ') || undefined}
      />
      {hint && (
        <p id={`${id}-hint`} className="tk-Form-note">
          {hint}
        </p>
      )}
    </div>
  );
}

/** The stored connection, without its key. */
function Stored({ stored }: { stored: StoredConnectionInfo }): JSX.Element {
  const { trans } = useServices();
  const { base_url, ending, in_force, model } = stored;
  const label = providersOf(trans).find(({ name }) => name === stored.provider)?.label;
  const where = [base_url, model].filter(part => part !== '').join(', ');
  const kept = trans.__('It is kept in a file that only you can read.');
  return (
    <p>
      {trans.__('Entered here: %1 (%2).', label ?? stored.provider, where)}{' '}
      {ending !== null && trans.__('The key ends in …%1.', ending)} {kept}{' '}
      {!in_force && trans.__('It is not used: another source takes precedence.')}
    </p>
  );
}

interface IProvider {
  name: Provider;
  label: string;
  note: string;
  fields: readonly IField[];
}

/** Return the providers with their fields. */
function providersOf(trans: TranslationBundle): IProvider[] {
  const kept = trans.__('Stored for your account only, and sent only to this provider.');
  const secret = { name: 'secret', hint: kept, required: true } as const;
  return [
    {
      name: 'anthropic',
      label: trans.__('Anthropic API'),
      note: trans.__('with an API key'),
      fields: [{ ...secret, label: trans.__('API key'), placeholder: 'sk-ant-…' }]
    },
    {
      name: 'oauth',
      label: trans.__('Claude subscription'),
      note: trans.__('with the token that “claude setup-token” prints'),
      fields: [{ ...secret, label: trans.__('Token') }]
    },
    {
      name: 'compatible',
      label: trans.__('Compatible endpoint'),
      note: trans.__('a gateway, LiteLLM, Ollama'),
      fields: [
        {
          name: 'base_url',
          label: trans.__('Base URL'),
          placeholder: 'http://localhost:11434',
          required: true
        },
        {
          name: 'secret',
          label: trans.__('Key or token'),
          hint: trans.__(
            'Leave it empty if the endpoint needs none. Stored for your account only, and sent only to this URL.'
          )
        },
        {
          name: 'model',
          label: trans.__('Model (optional)'),
          hint: trans.__('Leave it empty for the first model that the endpoint lists.')
        }
      ]
    }
  ];
}

function valueOf(stored: StoredConnectionInfo, name: FieldName): string {
  return name === 'secret' ? '' : stored[name];
}

/** Return the source that is in force. */
function sourceOf({ models, stored }: ConnectionInfo, trans: TranslationBundle): string {
  switch (models.source) {
    case 'environment':
      return trans.__('It is configured in the server’s environment.');
    case 'project':
      return trans.__('The key comes from the file of keys that the server’s settings name.');
    default:
      return stored?.in_force === true ? trans.__('It was connected here.') : '';
  }
}
