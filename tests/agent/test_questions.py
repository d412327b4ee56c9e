"""Questions of Claude: asked by its own tool, and answered in the chat."""

from __future__ import annotations

import pytest

from tests.agent.conftest import USER, Talk, goes_on, of_kind, rest, until
from tests.support.scripted_model import Answer, ToolUse
from tk_ai_extension.agent.chat_requests import QuestionAnswer
from tk_ai_extension.model.agent_errors import ChatNotFound
from tk_ai_extension.model.errors import InvalidArguments, NotFound

pytestmark = pytest.mark.proves("perm:agent-actions")

OPTIONS = [{"label": "Line", "description": "Over time"}, {"label": "Bars", "description": ""}]
PLOT = {"question": "Which plot?", "header": "Plot", "options": OPTIONS, "multiSelect": False}
DAYS = {"question": "Which days?", "header": "Days", "options": OPTIONS, "multiSelect": True}


async def test_the_answers_reach_the_model_in_its_own_words(talk: Talk) -> None:
    """In every mode, also in the strictest; one that does not fit is refused, and it stays pending."""
    talk.model.add(Answer.of("Hm.", ToolUse("AskUserQuestion", {"questions": [PLOT, DAYS]})))
    talk.model.add(Answer.of("Done."))
    begun = await talk.send("Plot it.", mode="plan")
    question = (await until(begun, "question")).data
    assert question["questions"][1] == {
        "text": "Which days?",
        "header": "Days",
        "options": OPTIONS,
        "multiple": True,
    }
    for call, answers in [
        ("other", []),
        (question["call"], [["Line"]]),
        (question["call"], [["Line", "Bars"], []]),
    ]:
        with pytest.raises(NotFound if call == "other" else InvalidArguments):
            await talk.chats.answer(USER, begun.chat, QuestionAnswer(call=call, answers=answers))
    with pytest.raises(ChatNotFound):
        await talk.chats.answer(
            "bob", begun.chat, QuestionAnswer(call=question["call"], answers=[])
        )
    given = [["A <b>map</b>"], ["Line", "Bars"]]
    await talk.chats.answer(USER, begun.chat, QuestionAnswer(call=question["call"], answers=given))
    events = await rest(begun)
    with pytest.raises(NotFound):
        await talk.chats.answer(
            USER, begun.chat, QuestionAnswer(call=question["call"], answers=given)
        )
    assert of_kind(events, "question_settled") == [{"call": question["call"], "given": given}]
    (result,) = talk.model.requests[-1].tool_results
    assert '"Which plot?"="A <b>map</b>", "Which days?"="Line, Bars"' in result.text
    assert [each["ok"] for each in of_kind(events, "tool_result")] == [True]


@pytest.mark.parametrize("how", ["skip", "message", "stop"])
async def test_a_person_need_not_answer(talk: Talk, how: str) -> None:
    """Who skips it, writes something else, or stops the turn."""
    talk.model.add(Answer.of(ToolUse("AskUserQuestion", {"questions": [PLOT]})))
    begun = await talk.send("Plot it.", mode="auto")
    question = (await until(begun, "question")).data
    talk.model.add(*[Answer.of("As I like.")] * (how != "stop"))
    if how == "skip":
        await talk.chats.answer(
            USER, begun.chat, QuestionAnswer(call=question["call"], answers=[[]])
        )
    elif how == "message":
        talk.model.add(Answer.of("A map."))
        await talk.send("A map.", chat=begun.chat)
    else:
        await talk.chats.stop(USER, begun.chat)
    events = await rest(begun)
    assert of_kind(events, "question_settled") == [{"call": question["call"], "given": []}]
    assert events[-1].data["end"] == ("stopped" if how == "stop" else "done")
    if how == "stop":
        await goes_on(talk, begun.chat)
    else:
        assert "did not answer" in talk.model.requests[1].tool_results[0].text


async def test_questions_that_nobody_could_read_are_refused(talk: Talk) -> None:
    long = {**PLOT, "question": "Which? " * 5_000}
    talk.model.add(Answer.of(ToolUse("AskUserQuestion", {"questions": [long]})), Answer.of("Well."))
    events = await talk.say("Plot it.")
    assert of_kind(events, "question") == []
    assert "longer than" in of_kind(events, "tool_result")[0]["text"]
