/** What is loaded by showing HTML, or by laying out a diagram. */
const KINDS = ['img', 'media', 'font', 'style', 'frame', 'object'];

/**
 * Block all that this page would load from other hosts, until it is loaded again.
 *
 * A policy in the page is enforced from the moment on in which it is there, and cannot be taken back.
 *
 * @param base - The address of this server: on a hub, others have theirs beside it.
 */
export function blockOtherHosts(base: URL): void {
  const own = base.pathname === '/' ? "'self'" : base.href;
  const policy = document.createElement('meta');
  policy.httpEquiv = 'Content-Security-Policy';
  policy.content = KINDS.map(kind => `${kind}-src ${own} data: blob: 'unsafe-inline'`).join(';');
  document.head.append(policy);
}
