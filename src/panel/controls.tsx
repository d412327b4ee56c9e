/** The panel's buttons and folds. */

import type { LabIcon } from '@jupyterlab/ui-components';
import { type ButtonHTMLAttributes, type JSX, type ReactNode, useState } from 'react';

import { type IMenuItem, openMenu } from '../common/menu';

/** A text button. `primary` is for the default action. */
export function Button({
  primary = false,
  ...attributes
}: ButtonHTMLAttributes<HTMLButtonElement> & { primary?: boolean }): JSX.Element {
  return (
    <button
      type="button"
      className={primary ? 'tk-Button tk-mod-accept' : 'tk-Button'}
      {...attributes}
    />
  );
}

interface IToolButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  icon: LabIcon;
  /** Its accessible name, which is also its tooltip. */
  label: string;
}

/** An icon button. */
export function ToolButton({ icon, label, ...attributes }: IToolButtonProps): JSX.Element {
  return (
    <button
      type="button"
      className="tk-ToolButton"
      aria-label={label}
      title={label}
      {...attributes}
    >
      <icon.react tag="span" width="16px" height="16px" />
    </button>
  );
}

interface IMenuButtonProps extends Omit<IToolButtonProps, 'onClick'> {
  items: readonly IMenuItem[];
}

/** An icon button that opens a menu; nothing without items. */
export function MenuButton({ items, ...attributes }: IMenuButtonProps): JSX.Element | null {
  return items.length === 0 ? null : (
    <ToolButton
      aria-haspopup="menu"
      {...attributes}
      onClick={({ currentTarget }) => openMenu(currentTarget, items)}
    />
  );
}

interface IFoldProps {
  className?: string;
  /** Shown while it is closed, too. */
  summary: ReactNode;
  /** Its content, which is rendered when it is first opened. */
  children: () => ReactNode;
  /** Whether it is open by default. */
  open?: boolean;
}

/** A `details` element that renders its content when it is opened, since a long chat has hundreds of them. */
export function Fold({ className = '', summary, children, open = false }: IFoldProps): JSX.Element {
  const [wasOpen, setWasOpen] = useState(false);
  return (
    <details
      className={className}
      open={open}
      onToggle={({ currentTarget }) => setWasOpen(wasOpen || currentTarget.open)}
    >
      <summary>{summary}</summary>
      {(open || wasOpen) && children()}
    </details>
  );
}
