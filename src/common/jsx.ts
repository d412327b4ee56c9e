/**
 * The JSX runtime, based on the React that JupyterLab shares.
 *
 * It replaces `react/jsx-runtime`, which JupyterLab does not share, so that it is not bundled.
 */

import {
  createElement,
  type ElementType,
  type Key,
  type ReactElement,
  type ReactNode
} from 'react';

export { Fragment } from 'react';

/** Make an element with one child or none. */
export const jsx = (type: ElementType, props: object, key?: Key): ReactElement =>
  createElement(type, { ...props, key });

/** Make an element with several children, whose places do not change. */
export const jsxs = (
  type: ElementType,
  { children, ...props }: { children: ReactNode[] },
  key?: Key
): ReactElement => createElement(type, { ...props, key }, ...children);
