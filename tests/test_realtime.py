"""Whole sessions of the Realtime protocol in virtual time, with scripted engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.driving import FaultyLlm, Hang, ListeningLlm, engines
from tests.realtime import RATE_HZ, Client, call
from voicepipe import g711
from voicepipe.audio import first_audible, from_pcm16
from voicepipe.config import Config, ScriptedConfig
from voicepipe.core.events import Verdict
from voicepipe.engines.scripted import ScriptedLlm
from voicepipe.errors import EngineBusy

SHORT = ScriptedConfig(reply="Yes.", transcripts=("One.", "Two.", "Three."))
LONG = ScriptedConfig(reply="This is a scripted reply. It has two sentences.", transcripts=("One.", "Two."))
TRANSCRIBED: dict[str, Any] = {"audio": {"input": {"transcription": {"model": "whisper-1"}}}}
MANUAL: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
CLOCK = {
    "type": "function",
    "name": "clock",
    "description": "Tells the time.",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
}


def listening(config: ScriptedConfig = SHORT) -> ListeningLlm:
    return ListeningLlm(config, 1)


def test_a_spoken_turn_is_answered_within_its_budget() -> None:
    """200 ms from the end of speech to the first sound, as at the native door."""

    async def script(client: Client) -> None:
        await client.pause(0.5)
        await client.speak(1.0)
        speech_end = client.now
        await client.pause_until("response.output_audio.delta")
        assert client.now - speech_end < 0.2
        await client.pause_until("response.done")

    client = call(script, engines(SHORT))
    (done,) = client.done
    assert done["status"] == "completed" and done["voicepipe"]["verdict"] == "met"
    assert len(client.audio(done["id"])) // 2 == round(0.3 * RATE_HZ)
    (started,) = client.of("input_audio_buffer.speech_started")
    (stopped,) = client.of("input_audio_buffer.speech_stopped")
    assert abs(started["audio_start_ms"] - 100) <= 40  # the onset, less the pre-roll
    assert abs(stopped["audio_end_ms"] - 1500) <= 60
    assert done["usage"]["input_tokens"] > 0 and done["usage"]["output_tokens"] == 1


def test_two_turns_are_one_conversation() -> None:
    llm = listening()

    async def script(client: Client) -> None:
        await client.update(instructions="Be brief.", **TRANSCRIBED)
        for _ in range(2):
            await client.speak(1.0)
            await client.pause_until("response.done")

    client = call(script, engines(SHORT, llm=llm))
    assert [e["transcript"] for e in client.of("conversation.item.input_audio_transcription.completed")] == [
        "One.",
        "Two.",
    ]
    assert llm.asked == (
        ("system", "Be brief."),
        ("user", "One."),
        ("assistant", "Yes."),
        ("user", "Two."),
    )


def test_a_reply_that_is_interrupted_is_remembered_as_far_as_the_client_says() -> None:
    """The client knows what it has played: here 700 ms, two words; the server's own guess was more."""
    llm = listening(LONG)

    async def script(client: Client) -> None:
        await client.speak(1.0)
        first = await client.pause_until("response.output_audio.delta")
        await client.pause(1.3)
        await client.speak(0.5)
        at = {"item_id": first["item_id"], "content_index": 0}
        await client.send("conversation.item.truncate", **at, audio_end_ms=700)
        await client.pause_until("response.created")
        await client.pause(0.3)

    client = call(script, engines(LONG, llm=llm))
    first, *_ = client.done
    assert first["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    kinds = client.kinds()
    assert kinds.index("response.done") > kinds.index("input_audio_buffer.speech_started", 3)
    assert not client.errors and client.of("conversation.item.truncated")
    assert llm.asked[1:] == (("user", "One."), ("assistant", "This is …"), ("user", "Two."))


def test_a_response_is_cancelled_and_the_session_lives() -> None:
    async def script(client: Client) -> None:
        await client.say("Hello.")
        await client.wait_until("response.output_audio.delta")
        await client.wait(0.5)
        await client.send("response.cancel")
        await client.wait_until("response.done", within_s=0.1)
        await client.send("response.cancel")
        await client.say("Again.")
        await client.wait_until("response.done")

    client = call(script, engines(LONG))
    assert [done["status"] for done in client.done] == ["cancelled", "completed"]
    assert client.errors == ["response_cancel_not_active"]


@pytest.mark.parametrize(("kind", "law", "silence"), [("audio/pcmu", "ulaw", 0xFF), ("audio/pcma", "alaw", 0xD5)])
def test_a_phone_line_is_heard_and_answered(kind: str, law: g711.Law, silence: int) -> None:
    """8,000 bytes a second both ways."""

    async def script(client: Client) -> None:
        form = {"type": kind}
        await client.update(audio={"input": {"format": form}, "output": {"format": form}})
        loud = (np.sin(np.arange(8000)) * 8000).astype("<i2").tobytes()
        for packet in [g711.encode(loud[at : at + 320], law) for at in range(0, 16_000, 320)]:
            await client.append(packet)
            await client.wait(0.02)
        while not client.done:
            await client.append(bytes([silence]) * 160)
            await client.wait(0.02)

    client = call(script, engines(SHORT))
    (done,) = client.done
    sound = client.audio(done["id"])
    assert abs(len(sound) - 2400) <= 2
    assert first_audible(from_pcm16(g711.decode(sound, law)), 8000) == 0
    assert client.records[0].verdict is Verdict.MET


def test_a_recording_that_comes_at_once_is_heard_from_its_beginning() -> None:
    """Twelve seconds in one breath, then a commit and a request for a reply, as programs do that have a file."""
    llm = listening()
    spoken_s: list[float] = []

    async def script(client: Client) -> None:
        await client.update(audio={"input": {"turn_detection": None, "transcription": {}}})
        recording = client.sound(0.5, 0.0) + client.sound(11.0) + client.sound(0.5, 0.0)
        for at in range(0, len(recording), 240_000):
            await client.append(recording[at : at + 240_000])
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.wait_until("response.done")
        spoken_s.append(client.records[0].turn)

    client = call(script, engines(SHORT, llm=llm))
    (completed,) = client.of("conversation.item.input_audio_transcription.completed")
    assert completed["transcript"] == "One." and completed["usage"]["seconds"] > 10.5
    assert not client.of("input_audio_buffer.speech_started")
    assert llm.asked[1:] == (("user", "One."),)
    assert not client.errors


def test_an_item_is_told_of_before_its_transcript() -> None:
    """Also where the words are known by the time of the commit."""

    async def script(client: Client) -> None:
        await client.update(audio={"input": {"turn_detection": None, "transcription": {}}})
        await client.speak(1.0)
        await client.pause(0.5)
        await client.send("input_audio_buffer.commit")
        await client.wait(0.5)

    client = call(script, engines(SHORT))
    assert client.kinds()[3:] == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.completed",
    ]
    assert client.of("conversation.item.added")[0]["item"]["content"][0]["transcript"] is None


def test_pushing_to_talk_over_a_reply() -> None:
    """What is said while the reply is spoken is heard, and the commit stops the reply."""
    llm = listening(LONG)

    async def script(client: Client) -> None:
        await client.update(audio={"input": {"turn_detection": None, "transcription": {}}})
        await client.speak(1.0)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.wait_until("response.output_audio.delta")
        await client.wait(0.5)
        await client.speak(0.6)
        await client.pause(0.3)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        for _ in range(2):
            await client.wait_until("response.done")

    client = call(script, engines(LONG, llm=llm))
    assert [done["status"] for done in client.done] == ["cancelled", "completed"]
    said = [e["transcript"] for e in client.of("conversation.item.input_audio_transcription.completed")]
    assert said == ["One.", "Two."]
    assert [role for role, _ in llm.asked] == ["system", "user", "assistant", "user"]


def test_a_typed_question_does_not_take_away_what_was_said_and_not_committed() -> None:
    """It is answered at once, whatever the microphone hears; the rest is there for the commit."""
    llm = listening()

    async def script(client: Client) -> None:
        await client.update(audio={"input": {"turn_detection": None, "transcription": {}}})
        await client.speak(1.0)
        await client.say("Hello.")
        await client.wait_until("response.done")
        await client.pause(0.5)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.wait_until("response.done")

    client = call(script, engines(SHORT, llm=llm))
    assert not client.errors
    (completed,) = client.of("conversation.item.input_audio_transcription.completed")
    assert completed["transcript"] != "" and completed["usage"]["seconds"] > 0.9
    assert [role for role, _ in llm.asked] == ["system", "user", "assistant", "user"]


def test_silence_that_is_committed_is_an_item_without_words() -> None:
    async def script(client: Client) -> None:
        await client.update(audio={"input": {"turn_detection": None, "transcription": {}}})
        await client.pause(0.5)
        await client.send("input_audio_buffer.commit")
        await client.wait(0.5)

    client = call(script)
    (completed,) = client.of("conversation.item.input_audio_transcription.completed")
    assert completed["transcript"] == "" and [r.verdict for r in client.records] == [Verdict.EMPTY]


def test_what_is_cleared_was_never_said() -> None:
    """Speech that goes on after it is heard from there on."""
    llm = listening()

    async def script(client: Client) -> None:
        await client.update(**MANUAL)
        await client.speak(0.7)
        await client.send("input_audio_buffer.clear")
        await client.speak(0.7)
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.wait_until("response.done")

    client = call(script, engines(SHORT, llm=llm))
    assert [record.verdict for record in client.records] == [Verdict.EMPTY, Verdict.MET, Verdict.MET]
    assert [role for role, _ in llm.asked] == ["system", "user"]


@pytest.mark.parametrize("interrupt", [True, False])
def test_speech_over_a_reply_that_may_not_be_interrupted(interrupt: bool) -> None:
    async def script(client: Client) -> None:
        detection = {"type": "server_vad", "interrupt_response": interrupt}
        await client.update(audio={"input": {"turn_detection": detection}})
        await client.say("Hello.")
        await client.wait_until("response.output_audio.delta")
        await client.pause(1.2)
        await client.speak(2.5)
        for _ in range(2):
            await client.pause_until("response.done")

    client = call(script, engines(LONG))
    assert client.done[0]["status"] == ("cancelled" if interrupt else "completed")
    assert client.done[1]["status"] == "completed", "what was still being said when it ended was heard"


def test_a_silence_that_the_client_asks_for_is_kept() -> None:
    """And the budget is missed for it: the server does not pretend."""

    async def script(client: Client) -> None:
        detection = {"type": "server_vad", "silence_duration_ms": 700}
        await client.update(audio={"input": {"turn_detection": detection}})
        await client.speak(1.0)
        speech_end = client.now
        await client.pause_until("input_audio_buffer.committed")
        assert 0.68 <= client.now - speech_end <= 0.78
        await client.pause_until("response.done")

    (done,) = call(script, engines(SHORT)).done
    assert done["voicepipe"]["verdict"] == "missed" and done["voicepipe"]["blame"]["stage"] == "endpoint"


def test_turns_that_are_not_answered_by_themselves() -> None:
    llm = listening()

    async def script(client: Client) -> None:
        detection = {"type": "server_vad", "create_response": False}
        await client.update(audio={"input": {"turn_detection": detection}})
        await client.speak(1.0)
        await client.pause_until("input_audio_buffer.committed")
        await client.pause(1.0)
        assert not client.of("response.created")
        await client.send("response.create")
        await client.pause_until("response.done")

    client = call(script, engines(SHORT, llm=llm))
    assert llm.asked[1:] == (("user", "One."),)
    assert [record.verdict for record in client.records] == [Verdict.MET, Verdict.MET]


def test_a_reply_in_writing() -> None:
    """Word by word, without a voice; its verdict counts the first word."""

    async def script(client: Client) -> None:
        await client.update(output_modalities=["text"])
        await client.speak(1.0)
        await client.pause_until("response.done")

    config = ScriptedConfig(reply=" ".join(["word"] * 30), transcripts=("One.",))
    client = call(script, engines(config))
    text = "".join(event["delta"] for event in client.of("response.output_text.delta"))
    assert text == config.reply and len(client.of("response.output_text.delta")) > 20
    assert not client.of("response.output_audio.delta")
    (done,) = client.done
    assert done["output"][0]["content"] == [{"type": "output_text", "text": config.reply}]
    assert done["voicepipe"]["verdict"] == "met" and done["voicepipe"]["felt_estimate_ms"] < 200


def test_a_reply_is_cut_at_the_most_tokens_it_may_have() -> None:
    async def script(client: Client) -> None:
        await client.update(max_output_tokens=3)
        await client.say("Hello.")
        await client.wait_until("response.done")

    (done,) = call(script, engines(LONG)).done
    assert done["status"] == "incomplete" and done["usage"]["output_tokens"] == 3
    assert done["status_details"]["reason"] == "max_output_tokens"


def test_a_response_beside_the_conversation_leaves_nothing_in_it() -> None:
    llm = listening()

    async def script(client: Client) -> None:
        response = {
            "conversation": "none",
            "instructions": "Classify.",
            "output_modalities": ["text"],
            "metadata": {"topic": "spam"},
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Buy!"}]}],
        }
        await client.send("response.create", response=response)
        await client.wait_until("response.done")
        assert llm.asked == (("system", "Classify."), ("user", "Buy!"))
        await client.say("Hello.")
        await client.wait_until("response.done")

    client = call(script, engines(SHORT, llm=llm))
    assert client.done[0]["metadata"] == {"topic": "spam"} and client.done[0]["conversation_id"] is None
    assert llm.asked[1:] == (("user", "Hello."),)


def test_items_have_their_place_and_can_be_deleted() -> None:
    """In what the model reads, too; replies and what was said included."""
    llm = listening()

    def item(words: str, ident: str, role: str = "user") -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "id": ident, "role": role, "content": [{"type": kind, "text": words}]}

    async def script(client: Client) -> None:
        await client.send("conversation.item.create", item=item("A.", "a"))
        await client.send("conversation.item.create", item=item("C.", "c", "assistant"))
        await client.send("conversation.item.create", item=item("B.", "b"), previous_item_id="a")
        await client.send("conversation.item.create", item=item("S.", "s", "system"), previous_item_id="root")
        await client.say("Hello.")
        reply = (await client.wait_until("response.done"))["response"]["output"][0]["id"]
        await client.send("conversation.item.delete", item_id="b")
        await client.send("conversation.item.delete", item_id=reply)
        await client.say("Again.")
        await client.wait_until("response.done")

    client = call(script, engines(SHORT, llm=llm))
    assert not client.errors
    assert llm.asked[1:] == (
        ("system", "S."),
        ("user", "A."),
        ("assistant", "C."),
        ("user", "Hello."),
        ("user", "Again."),
    )


# --- functions


CALLING = ScriptedConfig(reply="It is noon.", transcripts=("What time is it?",), calls=('clock {"zone": "Oslo"}',))


def test_a_function_is_called_and_its_result_is_spoken() -> None:
    async def script(client: Client) -> None:
        await client.update(tools=[CLOCK])
        await client.speak(1.0)
        called = await client.pause_until("response.function_call_arguments.done")
        await client.pause_until("response.done")
        output = {"type": "function_call_output", "call_id": called["call_id"], "output": "12:00"}
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        await client.pause_until("response.done")

    client = call(script, engines(CALLING))
    first, second = client.done
    assert [item["type"] for item in first["output"]] == ["function_call"]
    assert first["output"][0]["arguments"] == '{"zone": "Oslo"}'
    assert second["output"][0]["content"][0]["transcript"] == "It is noon."
    created = client.at("response.created")
    assert min(at for at, event in client.log if "function_call" in event["type"]) >= created


def test_a_phrase_while_a_function_runs_is_sound_without_a_transcript() -> None:
    """Beside the call, which is told first; the response is complete when it has been heard."""
    phrase = np.full(RATE_HZ // 2, 0.1, np.float32)

    async def script(client: Client) -> None:
        await client.update(tools=[CLOCK])
        await client.speak(1.0)
        called = await client.pause_until("response.function_call_arguments.done")
        await client.pause_until("response.done")
        output = {"type": "function_call_output", "call_id": called["call_id"], "output": "12:00"}
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        await client.pause_until("response.done")

    known = {"fillers": (phrase,), "clause_s": 0.4, "first_audio_s": 0.02}
    client = call(script, engines(CALLING), Config(ladder=("filler",)), known=known)
    first, second = client.done
    assert first["status"] == "completed" and first["voicepipe"]["verdict"] == "masked"
    assert [item["type"] for item in first["output"]] == ["function_call", "message"]
    assert first["output"][1]["content"] == [{"type": "output_audio", "transcript": ""}]
    assert len(client.audio(first["id"])) // 2 == RATE_HZ // 2
    assert second["output"][0]["content"][0]["transcript"] == "It is noon."


def test_a_call_is_a_part_of_what_the_model_reads() -> None:
    llm = listening(CALLING)

    async def script(client: Client) -> None:
        await client.update(tools=[CLOCK])
        await client.say("What time is it?")
        done = await client.wait_until("response.done")
        call_id = done["response"]["output"][0]["call_id"]
        output = {"type": "function_call_output", "call_id": call_id, "output": "12:00"}
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        await client.wait_until("response.done")

    call(script, engines(CALLING, llm=llm))
    assert [role for role, _ in llm.asked] == ["system", "user", "assistant", "tool"]
    assert llm.asked[-1] == ("tool", "12:00")


def test_arguments_that_do_not_fit_fail_the_response_and_are_not_shown() -> None:
    config = ScriptedConfig(reply="It is noon.", calls=('clock {"zone": 3}',))

    async def script(client: Client) -> None:
        await client.update(tools=[CLOCK])
        await client.say("What time is it?")
        await client.wait_until("response.done")
        await client.update(tool_choice="none")
        await client.say("And now?")
        await client.wait_until("response.done")

    client = call(script, engines(config))
    assert client.done[0]["status_details"]["error"]["code"] == "bad_tool_call"
    assert client.done[0]["output"] == [] and not [kind for kind in client.kinds() if "function" in kind]
    assert client.done[1]["status"] == "completed"
    assert client.house.observer.engines_failed == ["llm"]


def test_a_function_is_not_called_before_the_turn_is_over() -> None:
    """The model is asked while the user still speaks; the call waits for the commit, and a longer turn has none."""

    async def script(client: Client) -> None:
        await client.update(tools=[CLOCK], voicepipe={"operating_point": "safe"})
        await client.speak(1.0)
        await client.pause(1.0)  # less than the operating point asks for
        assert not [kind for kind in client.kinds() if "function" in kind]
        await client.pause_until("response.function_call_arguments.done")
        await client.pause_until("response.done")

    client = call(script, engines(CALLING))
    assert client.at("response.function_call_arguments.done") >= client.at("response.created")
    assert client.records[0].speculation.attempts >= 1


def test_a_model_that_calls_no_functions_is_not_offered_any() -> None:
    """The update is refused as a whole, and the session goes on as it was."""
    llm = listening()
    llm.calls_tools = False

    async def script(client: Client) -> None:
        await client.update(tools=[CLOCK], instructions="Shout.")
        await client.say("Hello.")
        await client.wait_until("response.done")

    client = call(script, engines(SHORT, llm=llm), Config(instructions="Be brief."))
    assert client.errors == ["unsupported"] and client.of("error")[0]["error"]["param"] == "tools"
    assert llm.asked[0] == ("system", "Be brief.")


# --- failures


def test_a_model_that_fails_fails_its_response() -> None:
    """It was asked once more, in vain. And the next one is answered."""

    async def script(client: Client) -> None:
        await client.say("Hello.")
        await client.wait_until("response.done")
        await client.say("Again.")
        await client.wait_until("response.done")

    faults = [None, None, RuntimeError("no"), RuntimeError("no")]
    client = call(script, engines(SHORT, llm=FaultyLlm(SHORT, 1, faults)))
    assert [done["status"] for done in client.done] == ["failed", "completed"]
    assert client.done[0]["status_details"]["error"]["code"] == "engine_failed"


def test_a_turn_that_comes_too_late_is_refused_where_that_is_enforced() -> None:
    async def script(client: Client) -> None:
        await client.update(voicepipe={"enforcement": "enforce"})
        await client.speak(1.0)
        await client.pause_until("response.done")

    llm = FaultyLlm(SHORT, 1, [Hang(0.5)] * 50)
    (done,) = call(script, engines(SHORT, llm=llm)).done
    assert done["status"] == "failed" and done["status_details"]["error"]["code"] == "turn_refused"
    assert done["voicepipe"]["verdict"] == "refused"


def test_a_transcription_session_only_listens() -> None:
    async def script(client: Client) -> None:
        for _ in range(2):
            await client.speak(1.0)
            await client.pause(1.0)

    client = call(script, engines(SHORT), query={"intent": "transcription"})
    completed = client.of("conversation.item.input_audio_transcription.completed")
    assert [event["transcript"] for event in completed] == ["One.", "Two."]
    assert not [kind for kind in client.kinds() if kind.startswith("response.")]


def test_a_client_of_the_beta_protocol_holds_a_conversation() -> None:
    async def script(client: Client) -> None:
        session = {"modalities": ["audio", "text"], "input_audio_transcription": {"model": "whisper-1"}}
        await client.send("session.update", session=session)
        await client.speak(1.0)
        await client.pause_until("response.done")

    client = call(script, engines(SHORT), headers={"openai-beta": "realtime=v1"})
    assert client.of("response.audio.delta") and client.of("conversation.item.created")
    assert client.done[0]["output"][0]["content"] == [{"type": "audio", "transcript": "Yes."}]


class FullLlm(ScriptedLlm):
    def open(self, session: str) -> Any:
        raise EngineBusy("all 2 reply slots are taken")


def test_without_a_free_slot_there_is_no_session() -> None:
    """An error of the server's, in the protocol's form, and 1013."""

    async def script(client: Client) -> None:
        await client.gone()

    client = call(script, engines(SHORT, llm=FullLlm(SHORT, 2)))
    (told,) = client.of("error")
    assert (told["error"]["type"], told["error"]["code"]) == ("server_error", "engine_busy")
    assert client.closed is not None and client.closed.code == 1013
    assert client.house.observer.refusals == ["engine_busy"]
