import type { ButtonHTMLAttributes, JSX } from 'react';

/** A button with words on it; `primary` for the one that goes on with the work. */
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
