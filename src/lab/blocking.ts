/** Resources that HTML or a diagram may load. */
const KINDS = ['img', 'media', 'font', 'style', 'frame', 'object'];

/**
 * Block all resources from other hosts until the page is reloaded.
 *
 * A policy in a meta element is enforced once the element is added, and cannot be removed.
 *
 * @param base - The base URL of this server. On a hub, other servers have the same origin.
 */
export function blockOtherHosts(base: URL): void {
  const own = base.pathname === '/' ? "'self'" : base.href;
  const policy = document.createElement('meta');
  policy.httpEquiv = 'Content-Security-Policy';
  policy.content = KINDS.map(kind => `${kind}-src ${own} data: blob: 'unsafe-inline'`).join(';');
  document.head.append(policy);
}
