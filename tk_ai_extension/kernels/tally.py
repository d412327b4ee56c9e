"""Whether messages were lost between the kernel and us."""

from __future__ import annotations


class Tally:
    """Counts what a kernel says that it has sent against what was heard.

    A kernel's own side of iopub drops messages when more than 1,000 wait to be sent, and nothing
    says so. But jupyter_client's sessions, ipykernel's among them, number all messages that they
    make, in their ids: ``<session>_<process>_<number>``. What is missing in between are replies on
    other channels, one to each request, or messages that were dropped.
    """

    def __init__(self) -> None:
        self._maker = ""
        self._heard = 0
        self._requests = 0

    def hear(self, msg_id: str, *, begins_request: bool) -> int | None:
        """Counts a message heard on iopub.

        Args:
            msg_id: Its id.
            begins_request: Whether it says that the kernel begins with a request.

        Returns:
            How many messages the kernel had made by then that were neither heard nor are replies,
            counted from no certain beginning: differences say something. None where ids have no
            numbers.
        """
        maker, _, digits = msg_id.rpartition("_")
        if not maker or not digits.isdigit():
            return None
        if begins_request:
            self._requests += 1
            self._maker = self._maker or maker
        if maker != self._maker:  # a subprocess of the kernel's has numbers of its own
            return None
        self._heard += 1
        return int(digits) - self._heard - self._requests
