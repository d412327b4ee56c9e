"""Those who are notified of what happens to the kernels of one server."""

from __future__ import annotations

from collections.abc import Callable

from tk_ai_extension.kernels.base import KernelEvent


class KernelListeners:
    """Listeners of kernel events, each notified in the order of subscription."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[KernelEvent], None]] = {}

    def add(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:
        """Subscribe a listener; the result unsubscribes it, and does nothing when called again."""
        subscription = object()
        self._listeners[subscription] = listener

        def remove() -> None:
            self._listeners.pop(subscription, None)

        return remove

    def notify(self, event: KernelEvent) -> None:
        """Call all listeners with an event; they may subscribe and unsubscribe meanwhile."""
        for listener in list(self._listeners.values()):
            listener(event)
