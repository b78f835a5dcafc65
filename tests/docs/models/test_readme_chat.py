"""The chat at the front of the README is what its command prints, with the real small model."""

from __future__ import annotations

from runtime.generate.readme_chat import ASK, BEGIN, END, KILLED, NAME, PAGE, TELL, Shown, render, talk
from tests.lanes import LONG
from tests.runtime.models.local.gguf import small_model

README = PAGE.read_text(encoding="utf-8")
CHAT = README.partition(BEGIN)[2].partition(END)[0]


def test_a_chat_is_written_between_its_marks() -> None:
    model = small_model().stem
    written = render(README, Shown(TELL, "Hello.\n"), Shown(ASK, "Bye.\n"))
    assert f'$ symbi chat -m "{TELL[-1]}"\nHello.\n{KILLED}\n$ symbi chat' in written
    assert f"The model is {model}," in written
    assert render(written, Shown(TELL, "Hello.\n"), Shown(ASK, "Bye.\n")) == written
    assert (written.partition(BEGIN)[0], written.partition(END)[2]) == (
        README.partition(BEGIN)[0],
        README.partition(END)[2],
    )


def test_the_page_shows_that_the_agent_knows_the_name_after_the_daemon_was_killed() -> None:
    before, killed, after = CHAT.partition(KILLED)
    assert f'$ symbi chat -m "{TELL[-1]}"' in before
    assert killed
    assert f'$ symbi chat -m "{ASK[-1]}"' in after
    assert NAME not in ASK[-1]
    assert NAME in after


@LONG
def test_the_small_model_says_the_name_again() -> None:
    small_model()
    # The words differ with the time, which the model sees, and where a processor rounds in another way.
    talks = (talk() for _ in range(3))
    assert any(NAME in told.output and NAME in asked.output for told, asked in talks)
