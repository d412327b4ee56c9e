import { caretDownIcon, caretUpIcon } from '@jupyterlab/ui-components';
import { useId, useRef, useState } from 'react';
import type { JSX } from 'react';

import { ApiError } from '../api/client';
import type { TablePreview, VariablePreview as Preview } from '../api/contextModels';
import { useServices } from './services';
import { previewVariable } from './variables';

export interface IVariablePreviewProps {
  name: string;
  notebook: string;
}

/** A button in the chip of a variable, which shows the columns and first rows of a table. */
export function VariablePreview({ name, notebook }: IVariablePreviewProps): JSX.Element {
  const { notebook: context, trans } = useServices();
  const [open, setOpen] = useState(false);
  const [found, setFound] = useState<Preview | string | null>(null);
  const button = useRef<HTMLButtonElement>(null);
  const shown = useRef(0);
  const id = useId();
  const show = async (): Promise<void> => {
    const number = ++shown.current;
    const settings = context.contents.serverSettings;
    const said = await previewVariable(settings, notebook, name).catch((error: unknown) => {
      if (error instanceof ApiError) {
        return error.problem.message;
      }
      throw error;
    });
    if (number === shown.current) {
      setFound(said);
    }
  };
  const toggle = (): void => {
    setOpen(!open);
    if (!open) {
      setFound(null);
      void show();
    }
  };
  const Icon = open ? caretUpIcon : caretDownIcon;
  return (
    <span
      onKeyDown={event => {
        if (open && event.key === 'Escape') {
          event.stopPropagation();
          setOpen(false);
          button.current?.focus();
        }
      }}
    >
      <button
        ref={button}
        type="button"
        className="tk-Chip-remove"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={trans.__('Preview %1', name)}
        onClick={toggle}
      >
        <Icon.react tag="span" width="10px" height="10px" />
      </button>
      {open && (
        <div
          id={id}
          className="tk-Preview"
          role="region"
          aria-label={trans.__('Preview of %1', name)}
          aria-live="polite"
          // Long tables are scrolled by the keyboard.
          tabIndex={0}
        >
          {found === null ? (
            trans.__('Loading…')
          ) : typeof found === 'string' ? (
            found
          ) : found.table === null ? (
            trans.__('Only tables of pandas and polars have a preview.')
          ) : (
            <Table {...found.table} />
          )}
        </div>
      )}
    </span>
  );
}

function Table({ rows, columns, index, head }: TablePreview): JSX.Element {
  const { trans } = useServices();
  return (
    <table>
      <caption>{trans.__('%1 rows, %2 columns', rows, columns)}</caption>
      <thead>
        <tr>
          <td />
          {head.map(({ name, type }, place) => (
            <th key={place} scope="col">
              {name}
              <small>{type}</small>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {index.map((label, row) => (
          <tr key={row}>
            <th scope="row">{label}</th>
            {head.map(({ values }, place) => (
              <td key={place}>{values[row]}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
